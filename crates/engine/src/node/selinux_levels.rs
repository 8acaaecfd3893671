//! SELinux labels of pods: a level of its own for each, so that no pod can touch another's files.

use parking_lot::Mutex;

use crate::blocking;
use crate::error::{Error, Result};
use crate::record::pod::{Event, Pod};
use crate::spec::{HostFacts, Labels, Levels, Policy, SELINUX_CATEGORIES};

/// The levels that pods have.
#[derive(Debug, Default)]
pub struct AllottedLevels(Mutex<Levels>);

impl AllottedLevels {
    /// Allots a level to a pod, where the node has SELinux, and writes it down.
    pub async fn allot(&self, host: &HostFacts, policy: &Policy, pod: &Pod) -> Result<()> {
        let Some(defaults) = &host.selinux else {
            return Ok(());
        };
        let options = pod.security().selinux_options.as_ref();
        let asked = options.map_or_else(String::new, |options| options.level.clone());
        let level = if asked.is_empty() {
            let categories = policy.selinux_categories.unwrap_or(SELINUX_CATEGORIES);
            self.lock().allot(categories).ok_or_else(|| {
                Error::Exhausted(format!(
                    "no SELinux level of {categories} categories is left for another pod; remove pods, or \
                     raise containers.selinux_category_range"
                ))
            })?
        } else {
            self.lock().reserve(&asked);
            asked
        };
        let labels = Labels::new(options, defaults, &level).map_err(Error::Spec);
        let known = blocking(move || Ok(labels?.check_known().map_err(Error::Spec)?)).await;
        if let Err(error) = known {
            self.lock().release(&level);
            return Err(error);
        }
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
