//! How layers are fetched that need not be here.

use std::path::PathBuf;
use std::time::Duration;

use crate::Repository;
use crate::patterns::matches_pattern;

/// Settings of layers that are mounted while they are fetched.
#[derive(Debug, Clone)]
pub struct LazySettings {
    /// Whether there are such layers. Those that are here already are used in any case.
    pub enabled: bool,
    /// Of which repositories, as patterns with `*` at either end or both; of all if there are none.
    pub repositories: Vec<String>,
    /// Smaller layers are fetched whole.
    pub smallest: u64,
    /// The program that serves them.
    pub program: PathBuf,
    /// Its directory, which is gone after a boot.
    pub run_dir: PathBuf,
    /// How long who reads what is not here waits before the read fails.
    pub timeout: Duration,
    /// The control groups that it lives in, as directories; the daemon's own if there are none.
    pub cgroups: Vec<PathBuf>,
    /// How ready the kernel is to kill it where memory runs out.
    pub oom_score_adj: Option<i32>,
    /// Bytes per second that are fetched while nobody waits for them; 0 for as many as come.
    pub bandwidth: u64,
    /// Bytes of lazy layers that are here beyond which nothing is fetched that nobody waits for; 0 for no bound.
    pub cache: u64,
}

impl LazySettings {
    /// Whether layers of a repository may be lazy.
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
