//! Cache of recently created sandboxes and containers, which saves calls to the engine while a container starts.
//!
//! The engine stays the only record. An event about a container removes its entry, and a possible loss of events
//! removes all. On a cache miss the engine is asked.

use std::collections::HashMap;

use orlop_cri_api::v1::PodSandboxMetadata;
use parking_lot::Mutex;

use crate::docker::types::Container;
use crate::limits::Extra;
use crate::log::Source;
use crate::names;

/// The cached sandboxes and containers.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// Running sandboxes.
    sandboxes: HashMap<String, Sandbox>,
    /// Containers that are created but not started.
    containers: HashMap<String, Made>,
}

/// Facts about a sandbox that container creation needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// The engine's runtime for its containers.
    pub(crate) runtime: String,
    /// The pod's namespace, if the sandbox's name contains it.
    pub(crate) namespace: Option<String>,
}

impl Sandbox {
    /// Extracts the facts from the engine's description.
    pub(crate) fn of(found: &Container) -> Self {
        Self {
            runtime: found.host_config.runtime.clone(),
            namespace: names::sandbox_of(&found.name).map(|pod| pod.namespace),
        }
    }
}

/// Facts about a created container that its start needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    /// The container's sandbox.
    pub(crate) sandbox: String,
    /// The pod, parsed from the container's name.
    pub(crate) pod: Option<PodSandboxMetadata>,
    /// The container's name in the pod.
    pub(crate) name: String,
    /// The container's log, if it has one.
    pub(crate) log: Option<Source>,
    /// Limits that are applied after the start.
    pub(crate) extra: Option<Extra>,
}

/// Maximum number of entries of each kind; a full cache takes no new ones.
const MOST: usize = 4096;

impl Remembered {
    /// Adds a running sandbox.
    pub(crate) fn sandbox_runs(&self, id: &str, sandbox: Sandbox) {
        self.change(|entries| {
            if entries.sandboxes.len() < MOST {
                entries.sandboxes.insert(id.to_owned(), sandbox);
            }
        });
    }

    /// Returns a running sandbox.
    pub(crate) fn running_sandbox(&self, sandbox: &str) -> Option<Sandbox> {
        self.change(|entries| entries.sandboxes.get(sandbox).cloned())
    }

    /// Adds a created container.
    pub(crate) fn made(&self, id: &str, made: Made) {
        self.change(|entries| {
            if entries.containers.len() < MOST {
                entries.containers.insert(id.to_owned(), made);
            }
        });
    }

    /// Takes the entry of a created container; only its first start finds it.
    pub(crate) fn take_made(&self, container: &str) -> Option<Made> {
        self.change(|entries| entries.containers.remove(container))
    }

    /// Removes the entry of a changed sandbox or container.
    pub(crate) fn forget(&self, id: &str) {
        self.change(|entries| {
            entries.sandboxes.remove(id);
            entries.containers.remove(id);
        });
    }

    /// Removes all entries, because any may have changed.
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
