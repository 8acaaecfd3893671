//! Cache of the configurations in use, by directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::cni::{ConfDir, Loaded};

/// The last valid contents of every requested configuration directory.
#[derive(Debug, Default)]
pub(crate) struct Store {
    dirs: Mutex<BTreeMap<PathBuf, (ConfDir, Arc<Loaded>)>>,
    generation: AtomicU64,
}

impl Store {
    /// Returns the contents of a directory, which is read at first use.
    pub(crate) fn get(&self, dir: &Path) -> Arc<Loaded> {
        if let Some((_, loaded)) = self.lock().get(dir) {
            return Arc::clone(loaded);
        }
        self.reload(dir)
    }

    /// Reads a directory again.
    pub(crate) fn reload(&self, dir: &Path) -> Arc<Loaded> {
        let mut dirs = self.lock();
        let (conf_dir, loaded) = dirs
            .entry(dir.to_owned())
            .or_insert_with(|| (ConfDir::new(dir), Arc::new(Loaded::default())));
        let fresh = conf_dir.load();
        if **loaded != fresh {
            for problem in fresh
                .problems
                .iter()
                .filter(|problem| !loaded.problems.contains(problem))
            {
                tracing::warn!(%problem, "a network configuration cannot be used");
            }
            let names: Vec<_> = fresh.networks.iter().map(|network| &network.name).collect();
            tracing::info!(dir = %dir.display(), networks = ?names, "network configuration loaded");
            *loaded = Arc::new(fresh);
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(loaded)
    }

    /// Returns a number that changes whenever a configuration changes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, (ConfDir, Arc<Loaded>)>> {
        self.dirs.lock()
    }
}
