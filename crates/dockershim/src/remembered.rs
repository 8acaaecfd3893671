//! What was made here a moment ago, so that the engine need not be asked about it once more on the
//! way to a running container.
//!
//! The engine stays the only record: an entry goes with any word that the container has changed,
//! and all of them go when such words may have been missed. Whoever finds nothing here asks.

use std::collections::HashMap;

use orlop_cri_api::v1::PodSandboxMetadata;
use parking_lot::Mutex;

use crate::docker::types::Container;
use crate::limits::Extra;
use crate::log::Source;
use crate::names;

/// The remembered pods and containers.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// Sandboxes that run.
    sandboxes: HashMap<String, Sandbox>,
    /// Containers that have not been started.
    containers: HashMap<String, Made>,
}

/// What the making of a container must know of its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// The engine's runtime for its containers.
    pub(crate) runtime: String,
    /// Its pod's namespace, where its name tells it.
    pub(crate) namespace: Option<String>,
}

impl Sandbox {
    /// What the engine says of one.
    pub(crate) fn of(found: &Container) -> Self {
        Self {
            runtime: found.host_config.runtime.clone(),
            namespace: names::sandbox_of(&found.name).map(|pod| pod.namespace),
        }
    }
}

/// What a container's start must know of its making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    /// The sandbox that it is in.
    pub(crate) sandbox: String,
    /// The pod, as the container's name has it.
    pub(crate) pod: Option<PodSandboxMetadata>,
    /// Its name in the pod.
    pub(crate) name: String,
    /// Its log, if it is to have one.
    pub(crate) log: Option<Source>,
    /// What is set after its start.
    pub(crate) extra: Option<Extra>,
}

/// Entries that nobody came back for are given up at this number of either kind.
const MOST: usize = 4096;

impl Remembered {
    /// A sandbox runs.
    pub(crate) fn sandbox_runs(&self, id: &str, sandbox: Sandbox) {
        self.change(|entries| {
            if entries.sandboxes.len() < MOST {
                entries.sandboxes.insert(id.to_owned(), sandbox);
            }
        });
    }

    /// A sandbox that runs.
    pub(crate) fn running_sandbox(&self, sandbox: &str) -> Option<Sandbox> {
        self.change(|entries| entries.sandboxes.get(sandbox).cloned())
    }

    /// A container was made.
    pub(crate) fn made(&self, id: &str, made: Made) {
        self.change(|entries| {
            if entries.containers.len() < MOST {
                entries.containers.insert(id.to_owned(), made);
            }
        });
    }

    /// A container that was made and not started since; only its first start finds it.
    pub(crate) fn take_made(&self, container: &str) -> Option<Made> {
        self.change(|entries| entries.containers.remove(container))
    }

    /// Something happened to a sandbox or container.
    pub(crate) fn forget(&self, id: &str) {
        self.change(|entries| {
            entries.sandboxes.remove(id);
            entries.containers.remove(id);
        });
    }

    /// Anything may have happened.
    pub(crate) fn forget_all(&self) {
        self.change(|entries| *entries = Entries::default());
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        change(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_serves_until_something_happens() {
        let remembered = Remembered::default();
        let sandbox = Sandbox {
            runtime: "runc".into(),
            namespace: Some("default".into()),
        };
        remembered.sandbox_runs("pod", sandbox.clone());
        remembered.made("one", Made::default());
        remembered.made("two", Made::default());
        assert_eq!(remembered.running_sandbox("pod"), Some(sandbox));
        assert!(remembered.take_made("one").is_some());
        assert!(remembered.take_made("one").is_none(), "for one start");
        remembered.forget("two");
        assert!(remembered.take_made("two").is_none());
        remembered.forget_all();
        assert_eq!(remembered.running_sandbox("pod"), None);
    }
}
