//! Settings of lazy layers.

use std::path::PathBuf;
use std::time::Duration;

use crate::Repository;
use crate::patterns::matches_pattern;

/// Settings of layers that are mounted while they are fetched.
#[derive(Debug, Clone)]
pub struct LazySettings {
    /// Whether new layers may be lazy. Lazy layers already on disk are used in any case.
    pub enabled: bool,
    /// Repositories with lazy layers, as patterns with `*` at either end or both; empty for all.
    pub repositories: Vec<String>,
    /// Smaller layers are downloaded completely before use.
    pub smallest: u64,
    /// The program that serves lazy layers.
    pub program: PathBuf,
    /// The server's directory, which does not survive a reboot.
    pub run_dir: PathBuf,
    /// Timeout of a read of data that is not on disk.
    pub timeout: Duration,
    /// Cgroup directories of the server; empty for the daemon's own cgroups.
    pub cgroups: Vec<PathBuf>,
    /// The server's `oom_score_adj`.
    pub oom_score_adj: Option<i32>,
    /// Limit of background downloads in bytes per second; 0 for no limit.
    pub bandwidth: u64,
    /// Bytes of lazy layers on disk at which background downloads stop; 0 for no limit.
    pub cache: u64,
}

impl LazySettings {
    /// Returns whether layers of a repository may be lazy.
    pub(crate) fn is_for(&self, repository: &Repository) -> bool {
        let name = repository.to_string();
        let any = self.repositories.is_empty();
        self.enabled
            && (any
                || self
                    .repositories
                    .iter()
                    .any(|it| matches_pattern(it, &name)))
    }
}

impl Default for LazySettings {
    fn default() -> Self {
        Self {
            enabled: false,
            repositories: Vec::new(),
            smallest: 4 << 20,
            program: PathBuf::from("orlop-lazy"),
            run_dir: PathBuf::from("/run/orlop/lazy"),
            timeout: Duration::from_secs(30),
            cgroups: Vec::new(),
            oom_score_adj: None,
            bandwidth: 0,
            cache: 0,
        }
    }
}
