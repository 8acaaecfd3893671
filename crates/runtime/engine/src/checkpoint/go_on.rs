//! Restoring a container from a checkpoint: the differences from a new container.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_launch::Restore;
use orlop_oci_types as oci;

use super::options::Options;
use super::source::Facts;
use super::{IMAGES, RESTORE_LOG, ROOTFS_DIFF, capture};
use crate::blocking;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::record::container::Container;
use crate::record::directories::remove_tree;
use crate::record::spec_file;

/// The properties of the requested container that must match the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Only what would make the restore fail.
    Terminal,
    /// All properties of the process.
    Process,
}

/// Returns the directory of a container's checkpoint until the container has been started.
pub fn directory(container: &Container) -> PathBuf {
    directory_in(&container.dir)
}

/// Returns the directory of the checkpoint for a container that is not made yet.
pub fn directory_in(container: &Path) -> PathBuf {
    container.join("restore")
}

/// The annotation that tells runc the path of CRIU's settings.
const CRIU_CONFIG: &str = "org.criu.config";

/// The path of these settings without the annotation.
const USUAL_CRIU_CONFIG: &str = "/etc/criu/runc.conf";

/// Makes CRIU leave the container in the cgroup that its runtime made for it. Otherwise it is restored into
/// the original container's cgroup (runc 1.1 has no option for that). Blocks.
pub fn keep_cgroup(container: &Container, spec: &mut oci::Spec) -> Result<()> {
    let path = container.bundle.join("criu.conf");
    let mut settings = match orlop_fs::read_text(USUAL_CRIU_CONFIG, orlop_fs::SMALL_FILE) {
        Ok(settings) => settings,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::io(format!("reading {USUAL_CRIU_CONFIG}"))(error).into()),
    };
    settings.push_str("\nmanage-cgroups=ignore\n");
    std::fs::write(&path, settings).map_err(Error::io(format!("writing {}", path.display())))?;
    let path = path.to_string_lossy().into_owned();
    spec.annotations.insert(CRIU_CONFIG.to_owned(), path);
    Ok(())
}

/// Unpacks the container's file changes into its writable layer. Blocks.
pub fn unpack_changes(config: &Config, container: &Container) -> Result<()> {
    let path = directory(container).join(ROOTFS_DIFF);
    let archive = match File::open(&path) {
        Ok(archive) => archive,
        // The container had no changes.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(format!("opening {}", path.display()))(error).into()),
    };
    let limits = &config.images.limits;
    orlop_image_store::unpack_changes(ROOTFS_DIFF, archive, &container.upper(), limits).map_err(
        |source| {
            let doing =
                "unpacking the file system changes of the checkpointed container".to_owned();
            Error::Image { doing, source }.into()
        },
    )
}

/// Refuses a container whose configuration does not match its checkpoint.
pub async fn check(container: &Arc<Container>, facts: &Facts, strict: Match) -> Result<()> {
    let container = Arc::clone(container);
    let made = blocking(move || spec_file::read(&container.bundle)).await?;
    let (Some(made), Some(was)) = (made.process, facts.process.as_ref()) else {
        return Err(Error::Precondition("the checkpoint contains no process".to_owned()).into());
    };
    if made.terminal != was.terminal {
        let had = if was.terminal {
            "a terminal"
        } else {
            "no terminal"
        };
        let problem = format!(
            "must be {}, because the checkpointed container has {had}",
            was.terminal
        );
        return Err(Error::invalid("config.tty", problem).into());
    }
    if strict == Match::Process {
        same_process(&made, was)?;
    }
    Ok(())
}

fn same_process(made: &oci::Process, was: &oci::Process) -> Result<()> {
    let differs = |field: &str, made: &dyn std::fmt::Debug, was: &dyn std::fmt::Debug| {
        let problem = format!("is {made:?}, but the checkpoint has {was:?}");
        Err(Error::invalid(field, problem).into())
    };
    if made.args != was.args {
        return differs("config.command and args", &made.args, &was.args);
    }
    if made.cwd != was.cwd {
        return differs("config.working_dir", &made.cwd, &was.cwd);
    }
    let ids = |user: &oci::User| (user.uid, user.gid);
    if ids(&made.user) != ids(&was.user) {
        return differs("the user and group", &ids(&made.user), &ids(&was.user));
    }
    let sorted = |env: &[String]| {
        let mut env: Vec<String> = env.to_vec();
        env.sort();
        env
    };
    let (made, was) = (sorted(&made.env), sorted(&was.env));
    if made != was {
        // The values may be secrets.
        let name = |entry: &String| entry.split('=').next().unwrap_or_default().to_owned();
        let only = |of: &[String], others: &[String]| -> Vec<String> {
            of.iter()
                .filter(|entry| !others.contains(entry))
                .map(name)
                .collect()
        };
        let (now, then) = (only(&made, &was), only(&was, &made));
        return differs("config.envs", &now, &then);
    }
    Ok(())
}

/// Returns the runtime's options for restoring the container.
pub fn restore(container: &Container) -> Restore {
    let dir = directory(container);
    let options = Options::default();
    Restore {
        image_path: dir.join(IMAGES),
        work_path: dir,
        tcp_established: container.goes_on.is_some_and(|it| it.tcp_established),
        file_locks: options.file_locks,
    }
}

/// Removes the checkpoint of a container that has been started: it is not needed any more.
pub async fn started(container: &Container) {
    let dir = directory(container);
    let removed = blocking(move || remove_tree(&dir)).await;
    if let Err(error) = removed {
        // The checkpoint is removed with the container.
        tracing::warn!(container = %container.id, %error, "cannot remove a checkpoint");
    }
}

/// Adds CRIU's errors to the error of a failed restore.
pub async fn failed(container: &Container, error: Arc<Error>) -> Arc<Error> {
    capture::with_reasons(error, directory(container).join(RESTORE_LOG)).await
}
