//! SELinux labels of pods: a level of its own for each, so that no pod can touch another's files.

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::record::pod::{Event, Pod};
use crate::spec::{HostFacts, Labels, Levels};

/// The levels that pods have.
#[derive(Debug, Default)]
pub struct AllottedLevels(Mutex<Levels>);

impl AllottedLevels {
    /// Allots a level to a pod, where the node has SELinux, and writes it down.
    pub async fn allot(&self, host: &HostFacts, pod: &Pod) -> Result<()> {
        if host.selinux.is_none() {
            return Ok(());
        }
        let asked = pod.security().selinux_options.as_ref();
        let asked = asked.map_or_else(String::new, |options| options.level.clone());
        let level = if asked.is_empty() {
            self.lock().allot().ok_or_else(|| {
                Error::Exhausted("no SELinux level is left for another pod".into())
            })?
        } else {
            self.lock().reserve(&asked);
            asked
        };
        pod.record(Event::Labelled { level }).await
    }

    /// Notes the level of a pod of an earlier run.
    pub fn restore(&self, pod: &Pod) {
        if let Some(level) = pod.now().selinux_level {
            self.lock().reserve(&level);
        }
    }

    /// Gives the level of a pod that is gone back.
    pub fn release(&self, pod: &Pod) {
        if let Some(level) = pod.now().selinux_level {
            self.lock().release(&level);
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Levels> {
        self.0.lock()
    }
}

/// The labels of a pod's processes and files, where the node has SELinux.
pub fn of_pod(host: &HostFacts, pod: &Pod) -> Result<Option<Labels>> {
    let (Some(defaults), Some(level)) = (&host.selinux, pod.now().selinux_level) else {
        return Ok(None);
    };
    let options = pod.security().selinux_options.as_ref();
    let labels = Labels::new(options, defaults, &level).map_err(Error::Spec)?;
    Ok(Some(labels))
}
