//! Checkpoints of running containers.
//!
//! All containers are frozen before the first is written and until the last is written, so the checkpoint
//! shows one moment of all of them. The directory that a container is written to is made before the
//! container is paused; by it the next start of the daemon knows which containers to resume.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_image_store::Images;
use orlop_launch::{CheckpointOptions, criu};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::options::Options;
use super::output::Output;
use super::{
    CONFIG_DUMP, CONTAINER_LOG, ConfigDump, DELETED_FILES, DUMP_LOG, IMAGES, ROOTFS_DIFF,
    SPEC_DUMP, STATUS_DUMP, archive, busy, layer, reasons,
};
use crate::error::{Error, Result, chain};
use crate::image::held_layers;
use crate::node::runtimes::Runtimes;
use crate::record::container::{Container, Phase};
use crate::record::directories::remove_tree;
use crate::record::messages::container_status;
use crate::{blocking, clock, spec};

/// Default timeout of a checkpoint.
pub const USUAL_LIMIT: Duration = Duration::from_mins(10);

/// Timeout of freezing and thawing, which takes milliseconds.
const FREEZE_LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of the log text that is searched for errors.
const LOG_MAX: u64 = 8 << 20;

/// Refuses containers that cannot be checkpointed.
pub fn check(runtimes: &Runtimes, container: &Container) -> Result<()> {
    if criu().is_none() {
        return Err(no_criu());
    }
    let id = &container.id;
    if container.phase() != Phase::Running {
        let state = container.state().as_str_name();
        let problem = format!("container {id} is not running; its state is {state}");
        return Err(Error::Precondition(problem).into());
    }
    let ranges = spec::IdRanges::parse(Some(container.pod.namespaces())).map_err(Error::Spec)?;
    if ranges.is_some() {
        let problem = format!(
            "container {id} is in a user namespace; checkpoints of such containers are not \
             supported"
        );
        return Err(Error::Precondition(problem).into());
    }
    runtimes.of(&container.pod).map(drop)
}

/// Returns the error for a missing `criu` program.
pub fn no_criu() -> Arc<Error> {
    let problem = "cannot find criu in /usr/local/sbin, /usr/sbin or another program directory; install the \
         package criu to create and restore checkpoints";
    Error::Precondition(problem.to_owned()).into()
}

/// Checkpoints containers, each into its own [directory](directory), until `stop` is cancelled. The
/// containers are resumed in any case.
pub async fn capture(
    images: &Images,
    runtimes: &Runtimes,
    containers: &[Arc<Container>],
    options: Options,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<()> {
    for container in containers {
        let dir = directory(container);
        blocking(move || {
            remove_tree(&dir)?;
            archive::make_images_dir(&dir)
        })
        .await?;
    }
    let writing = stop.child_token();
    let work = async {
        for container in containers {
            pause(runtimes, container).await?;
        }
        for container in containers {
            write(images, runtimes, container, options, limit, &writing).await?;
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(limit, work) => outcome.unwrap_or_else(|_| {
            let problem = format!("the checkpoint took longer than {limit:?}; nothing was written");
            Err(Error::Timeout(problem).into())
        }),
        () = stop.cancelled() => {
            Err(Error::Timeout("the client cancelled the checkpoint".to_owned()).into())
        }
    };
    if outcome.is_err() {
        writing.cancel();
        nobody_at_work(containers).await;
    }
    let mut resumed = Ok(());
    for container in containers {
        // A container that stays frozen must not keep the others frozen.
        if let Err(error) = resume(runtimes, container).await {
            tracing::error!(
                container = %container.id,
                error = chain(&*error),
                "cannot resume the container after the checkpoint"
            );
            resumed = Err(error);
        }
    }
    outcome.and(resumed)
}

/// Returns the directory that a container is written to.
pub fn directory(container: &Container) -> PathBuf {
    container.dir.join("dump")
}

/// Removes the directories that containers were written to.
pub async fn clear(containers: &[Arc<Container>]) {
    for container in containers {
        let dir = directory(container);
        if let Err(error) = blocking(move || remove_tree(&dir)).await {
            tracing::warn!(container = %container.id, error = chain(&*error), "cannot remove the checkpoint files");
        }
    }
}

/// Resumes a container that was being checkpointed when the daemon was killed.
pub async fn recover(runtimes: &Runtimes, container: &Arc<Container>) -> Result<()> {
    if !directory(container).exists() {
        return Ok(());
    }
    let containers = std::slice::from_ref(container);
    nobody_at_work(containers).await;
    if container.phase() == Phase::Running {
        resume(runtimes, container).await?;
    }
    clear(containers).await;
    Ok(())
}

/// Ends unfinished checkpoints of the containers, and waits until CRIU has exited.
async fn nobody_at_work(containers: &[Arc<Container>]) {
    for container in containers {
        let (id, images) = (container.id.clone(), directory(container).join(IMAGES));
        let ended = blocking(move || {
            busy::end(id.as_str(), &images);
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::error!(container = %container.id, error = chain(&*error), "cannot wait for CRIU");
        }
    }
}

async fn pause(runtimes: &Runtimes, container: &Container) -> Result<()> {
    let handler = runtimes.of(&container.pod)?;
    let paused = handler.runtime.pause(container.id.as_str(), FREEZE_LIMIT);
    paused
        .await
        .map_err(|source| launch("pausing", container, source))
}

async fn resume(runtimes: &Runtimes, container: &Container) -> Result<()> {
    let runtime = &runtimes.of(&container.pod)?.runtime;
    let id = container.id.as_str();
    let Err(source) = runtime.resume(id, FREEZE_LIMIT).await else {
        return Ok(());
    };
    // The container was not paused yet, or has exited.
    match runtime.state(id, FREEZE_LIMIT).await {
        Ok(state) if state.status == "paused" => Err(launch("resuming", container, source)),
        _ => Ok(()),
    }
}

fn launch(doing: &str, container: &Container, source: orlop_launch::Error) -> Arc<Error> {
    let doing = format!("{doing} container {}", container.id);
    Error::Launch { doing, source }.into()
}

async fn write(
    images: &Images,
    runtimes: &Runtimes,
    container: &Arc<Container>,
    options: Options,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<()> {
    let dir = directory(container);
    let handler = runtimes.of(&container.pod)?;
    let how = CheckpointOptions {
        image_path: dir.join(IMAGES),
        work_path: dir.clone(),
        leave_running: true,
        tcp_established: options.tcp_established,
        file_locks: options.file_locks,
    };
    let written = handler
        .runtime
        .checkpoint(container.id.as_str(), &how, limit);
    if let Err(source) = written.await {
        let error = launch("creating a checkpoint of", container, source);
        return Err(with_reasons(error, dir.join(DUMP_LOG)).await);
    }
    let lower = held_layers(images, container.id.as_str()).await?;
    let (container, stop) = (Arc::clone(container), stop.clone());
    blocking(move || write_around(&container, &dir, &lower, &stop)).await
}

/// Adds the errors in CRIU's log to an error of the runtime.
pub async fn with_reasons(error: Arc<Error>, log: PathBuf) -> Arc<Error> {
    let read = move || {
        let text = orlop_fs::open_file(&log)
            .and_then(|file| orlop_fs::read_start(file, LOG_MAX))
            .map_err(Error::io("reading the CRIU log"))?;
        Ok(reasons(&String::from_utf8_lossy(&text)))
    };
    match blocking(read).await {
        Ok(Some(reasons)) => Error::Internal(format!("{}: criu: {reasons}", chain(&*error))).into(),
        _ => error,
    }
}

/// Writes the files that are not CRIU's.
fn write_around(
    container: &Container,
    dir: &Path,
    lower: &[PathBuf],
    stop: &CancellationToken,
) -> Result<()> {
    let write = || -> io::Result<()> {
        let diff = Output::new(archive::new_file(&dir.join(ROOTFS_DIFF))?, stop);
        let diff = io::BufWriter::with_capacity(1 << 20, diff);
        let deleted = layer::write(&container.upper(), lower, diff)?;
        json_file(&dir.join(DELETED_FILES), &json!(deleted))?;
        json_file(&dir.join(CONFIG_DUMP), &json!(config_dump(container)))?;
        json_file(&dir.join(STATUS_DUMP), &status_dump(container))?;
        let spec = container.bundle.join("config.json");
        copy(&spec, &dir.join(SPEC_DUMP))?;
        let logs = Path::new(&container.pod.config.log_directory);
        if let Some(log) = container.log_path() {
            copy_log(logs, &log, &dir.join(CONTAINER_LOG), stop)?;
        }
        Ok(())
    };
    let doing = format!(
        "writing the files of container {} to the checkpoint",
        container.id
    );
    write().map_err(Error::io(doing)).map_err(Into::into)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = std::fs::File::open(from)?;
    io::copy(&mut from, &mut archive::new_file(to)?).map(drop)
}

/// Copies a container's log, which is below its pod's directory `logs`, if there is one. Pods may be able
/// to write there, so symbolic links and non-regular files are ignored. The copy is limited to the length
/// at open.
fn copy_log(logs: &Path, log: &Path, to: &Path, stop: &CancellationToken) -> io::Result<()> {
    let Some(from) = open_log(logs, log)? else {
        return Ok(());
    };
    let length = from.metadata()?.len();
    let mut from = io::Read::take(from, length);
    let mut to = Output::new(archive::new_file(to)?, stop);
    io::copy(&mut from, &mut to).map(drop)
}

fn open_log(logs: &Path, log: &Path) -> io::Result<Option<std::fs::File>> {
    // The administrator decides where the logs of all pods are; that path may contain symbolic links.
    let above = logs.parent().unwrap_or(Path::new("/"));
    let Ok(log) = log.strip_prefix(above) else {
        return Ok(None);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = match open(above, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        above => above?,
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let opened = openat2(above, log, flags, Mode::empty(), within);
    let file = match opened {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
        opened => std::fs::File::from(opened?),
    };
    let regular = file.metadata()?.is_file();
    Ok(regular.then_some(file))
}

fn json_file(path: &Path, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer_pretty(archive::new_file(path)?, value).map_err(Into::into)
}

fn config_dump(container: &Container) -> ConfigDump {
    ConfigDump {
        id: container.id.to_string(),
        name: container.metadata().name,
        rootfs_image: container.image.name.clone(),
        rootfs_image_ref: container.image.reference.clone(),
        rootfs_image_name: container.image.name.clone(),
        runtime: container.pod.runtime.clone(),
        created_time: time(container.created_at),
        checkpointed_time: time(clock::now()),
        // Go's zero time.
        restored_time: "0001-01-01T00:00:00Z".to_owned(),
        restored: false,
    }
}

fn time(nanoseconds: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(nanoseconds))
        .unwrap_or_default()
        .to_string()
}

/// Returns the status with the field names of Go's encoding.
fn status_dump(container: &Container) -> serde_json::Value {
    let status = container_status(container);
    let metadata = status.metadata.clone().unwrap_or_default();
    json!({
        "id": status.id,
        "metadata": { "name": metadata.name, "attempt": metadata.attempt },
        "state": status.state,
        "created_at": status.created_at,
        "started_at": status.started_at,
        "finished_at": status.finished_at,
        "exit_code": status.exit_code,
        "image": { "image": status.image.clone().unwrap_or_default().image },
        "image_ref": status.image_ref,
        "reason": status.reason,
        "message": status.message,
        "labels": status.labels,
        "annotations": status.annotations,
        "log_path": status.log_path,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_log_that_is_a_link_puts_no_file_of_the_node_into_a_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("logs/pod/main")).unwrap();
        std::fs::write(path("logs/pod/main/0.log"), "said").unwrap();
        symlink("/etc/passwd", path("logs/pod/main/1.log")).unwrap();
        symlink("/etc", path("logs/pod/elsewhere")).unwrap();
        symlink("/etc", path("logs/swapped")).unwrap();
        symlink("logs", path("link")).unwrap();
        let copy = |pod: &str, log: &str, to: &str| {
            let pod = path(pod);
            copy_log(&pod, &pod.join(log), &path(to), &CancellationToken::new()).unwrap();
        };
        copy("link/pod", "main/0.log", "copied");
        assert_eq!(std::fs::read_to_string(path("copied")).unwrap(), "said");
        for (pod, hostile) in [
            ("logs/pod", "main/1.log"),
            ("logs/pod", "elsewhere/passwd"),
            ("logs/swapped", "passwd"),
            ("logs/pod", "main"),
            ("logs/pod", "none"),
        ] {
            copy(pod, hostile, "hostile");
            assert!(!path("hostile").exists(), "{hostile}");
        }
    }
}
