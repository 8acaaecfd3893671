//! SELinux levels of pods: each pod has its own, so that no pod can touch another pod's files.

use parking_lot::Mutex;

use crate::blocking;
use crate::error::{Error, Result};
use crate::record::pod::{Event, Pod};
use crate::spec::{HostFacts, Labels, Levels, Policy, SELINUX_CATEGORIES};

/// The levels allotted to pods.
#[derive(Debug, Default)]
pub struct AllottedLevels(Mutex<Levels>);

impl AllottedLevels {
    /// Allots a level to a pod and records it, if the node has SELinux.
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
                    "no SELinux level of {categories} categories is free for another pod; remove \
                     pods or raise containers.selinux_category_range"
                ))
            })?
        } else {
            self.lock().reserve(&asked);
            asked
        };
        let labels = Labels::new(options, defaults, &level).map_err(Error::Spec);
        let known = blocking(move || Ok(labels?.check_known().map_err(Error::Spec)?)).await;
        let (noted, event) = (level.clone(), Event::Labelled { level });
        let allotted = match known {
            Ok(()) => pod.record(event).await,
            refused => refused,
        };
        // A pod without a record of its level would not release it.
        allotted.inspect_err(|_| self.lock().release(&noted))
    }

    /// Reserves the level of a pod of an earlier run.
    pub fn restore(&self, pod: &Pod) {
        if let Some(level) = pod.now().selinux_level {
            self.lock().reserve(&level);
        }
    }

    /// Releases the level of a removed pod.
    pub fn release(&self, pod: &Pod) {
        if let Some(level) = pod.now().selinux_level {
            self.lock().release(&level);
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Levels> {
        self.0.lock()
    }
}

/// Returns the labels of a pod's processes and files, if the node has SELinux.
pub fn of_pod(host: &HostFacts, pod: &Pod) -> Result<Option<Labels>> {
    let (Some(defaults), Some(level)) = (&host.selinux, pod.now().selinux_level) else {
        return Ok(None);
    };
    let options = pod.security().selinux_options.as_ref();
    let labels = Labels::new(options, defaults, &level).map_err(Error::Spec)?;
    Ok(Some(labels))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::process::Command;

    use orlop_cri_api::v1::{PodSandboxConfig, PodSandboxMetadata};
    use orlop_testkit::{Scratch, machine, skip_unless};

    use super::*;
    use crate::record::ids::PodId;
    use crate::spec::{SelinuxDefaults, host_facts};

    /// A page of memory, which such a file system counts in.
    const PAGE: u64 = 4096;

    /// A pod whose record leaves no space for another line on its page.
    fn a_pod(pods: &std::path::Path) -> Pod {
        for padding in (0..).step_by(8) {
            let mut config = PodSandboxConfig {
                metadata: Some(PodSandboxMetadata::default()),
                ..PodSandboxConfig::default()
            };
            let text = "x".repeat(padding);
            config.annotations.insert("padding".to_owned(), text);
            let asked = (config, String::new(), String::new());
            let pod = Pod::create(pods, pods, PodId::random(), asked, 1).unwrap();
            let length = fs::metadata(pod.dir.join("journal")).unwrap().len();
            if length % PAGE > PAGE - 16 {
                return pod;
            }
            fs::remove_dir_all(&pod.dir).unwrap();
        }
        unreachable!("some record is as long")
    }

    #[tokio::test]
    async fn a_level_that_could_not_be_written_down_is_free_again() {
        skip_unless!(machine::is_root());
        let scratch = Scratch::new();
        let disk = scratch.path("disk");
        fs::create_dir(&disk).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "disk"])
            .arg(&disk)
            .status();
        assert!(mounted.unwrap().success());
        let pod = a_pod(&disk);
        let mut host = host_facts();
        host.selinux = Some(SelinuxDefaults {
            process: "system_u:system_r:container_t:s0".into(),
            file: "system_u:object_r:container_file_t:s0".into(),
            layers: None,
        });
        // Two categories form only one level.
        let policy = Policy {
            selinux_categories: Some(2),
            ..Policy::default()
        };
        let levels = AllottedLevels::default();
        let path = disk.join("full");
        let mut full = OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(&path)
            .unwrap();
        while full.write(&[0; 4096]).is_ok() {}

        let refused = levels.allot(&host, &policy, &pod).await.unwrap_err();
        assert!(
            refused.to_string().contains("writing the record"),
            "{refused}"
        );
        assert_eq!(pod.now().selinux_level, None);

        drop(full);
        fs::remove_file(&path).unwrap();
        levels.allot(&host, &policy, &pod).await.unwrap();
        assert_eq!(pod.now().selinux_level.as_deref(), Some("s0:c0,c1"));
    }
}
