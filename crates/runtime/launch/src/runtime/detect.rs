//! Detection of a working runtime on this host.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;

use super::oci::OciRuntime;
use crate::error::{Error, Result};

/// Time limit for one step of a test.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// Prefix of the names of test containers and bundles.
pub const TRIAL_PREFIX: &str = "orlop-trial-";

/// A runtime to test.
pub type Candidate = OciRuntime;

/// The first runtime that works, and the rejected ones before it.
#[derive(Debug)]
pub struct Detected {
    /// The working runtime, if any.
    pub runtime: Option<OciRuntime>,
    /// Runtimes that were tested before and do not work.
    pub rejected: Vec<Rejection>,
}

/// A runtime that does not work.
#[derive(Debug)]
pub struct Rejection {
    /// The rejected runtime.
    pub runtime: OciRuntime,
    /// Error of the test.
    pub error: Error,
}

/// Returns the first candidate that can create a container here. The test creates a container (but never starts it) in
/// the cgroup `cgroup_parent`, and deletes it. `scratch` is an existing directory for the test bundles.
pub async fn detect(
    candidates: impl IntoIterator<Item = Candidate>,
    scratch: &Path,
    cgroup_parent: &str,
) -> Detected {
    let mut rejected = Vec::new();
    for runtime in candidates {
        match runtime.try_out(scratch, cgroup_parent).await {
            Ok(()) => {
                return Detected {
                    runtime: Some(runtime),
                    rejected,
                };
            }
            Err(error) => rejected.push(Rejection { runtime, error }),
        }
    }
    Detected {
        runtime: None,
        rejected,
    }
}

impl OciRuntime {
    /// Tests the runtime: creates a container and deletes it.
    pub async fn try_out(&self, scratch: &Path, cgroup_parent: &str) -> Result<()> {
        static TRIALS: AtomicU32 = AtomicU32::new(0);
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let id = format!("{TRIAL_PREFIX}{}-{number}", std::process::id());
        let bundle = Bundle(scratch.join(&id));
        bundle
            .write(&self.trial_cgroup(cgroup_parent, &id))
            .map_err(|source| Error::File {
                doing: "creating trial bundle",
                path: bundle.0.clone(),
                source,
            })?;
        let command: [&OsStr; 4] = [
            "create".as_ref(),
            "--bundle".as_ref(),
            bundle.0.as_ref(),
            id.as_ref(),
        ];
        let created = self
            .run_apart(&bundle.0.join("trial.log"), &command, STEP_LIMIT)
            .await;
        // Even a failed creation may have left something behind.
        let deleted = self.delete(&id, STEP_LIMIT).await;
        created.and(deleted)
    }
}

impl OciRuntime {
    /// Returns a cgroup path, or systemd's `slice:prefix:name`.
    fn trial_cgroup(&self, parent: &str, id: &str) -> String {
        let separator = if self.systemd_cgroup { ':' } else { '/' };
        format!("{parent}{separator}{id}")
    }
}

/// A bundle, which is removed when dropped.
struct Bundle(PathBuf);

impl Bundle {
    fn write(&self, cgroups_path: &str) -> io::Result<()> {
        let rootfs = self.0.join("rootfs");
        fs::create_dir_all(&rootfs)?;
        for dir in ["proc", "dev", "sys"] {
            fs::create_dir(rootfs.join(dir))?;
        }
        let program = rootfs.join("trial");
        // runwasi's shims require a file that looks like a program.
        fs::write(&program, "#! never executed")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let namespaces = ["pid", "ipc", "uts", "mount", "network"];
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": ["/trial"],
                "env": ["PATH=/"],
                "cwd": "/",
                "noNewPrivileges": true,
            },
            "root": {"path": "rootfs", "readonly": true},
            "hostname": "trial",
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {
                "cgroupsPath": cgroups_path,
                "namespaces": namespaces.map(|kind| json!({"type": kind})),
                "resources": {"devices": [{"allow": false, "access": "rwm"}], "pids": {"limit": 64}},
            },
        });
        fs::write(self.0.join("config.json"), config.to_string())
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        if let Err(error) = orlop_fs::remove_tree(&self.0) {
            tracing::warn!(path = ?self.0, %error, "cannot remove the bundle of a runtime test");
        }
    }
}
