//! Keeper requests for containers.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_keeper_protocol::{
    Create, Created, Delete, Kill, Mount, ReopenLog, Resize, Start, Started,
};

use super::client::{Keeper, REQUEST_LIMIT};
use crate::create_container::{CreateContainer, TerminalSize};
use crate::error::Result;
use crate::runtime::OciRuntime;

/// Selects how a created container is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartBy {
    /// By the keeper, if it knows the FIFO in which the container's process waits; else by its runtime.
    Keeper,
    /// By its runtime, which has more work to do at the start.
    Runtime,
}

impl Keeper {
    /// Attaches a detached mount at `path`, in the keeper's mount namespace only, where runtimes see it. `path` is an
    /// existing directory (or file) below a [private](crate::make_private_dir) one. The mount is undone by
    /// [`delete`](Keeper::delete) of `container`, or with the keeper.
    pub async fn place_mount(&self, container: &str, mount: OwnedFd, path: &Path) -> Result<()> {
        let doing = format!("mounting {} for container {container}", path.display());
        let request = Mount {
            container: container.to_owned(),
            path: path.to_owned(),
        };
        self.call(&doing, &request, vec![mount], REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }

    /// Creates a container. The runtime is killed if it exceeds `limit`. A restored container runs afterwards, as does
    /// one that the reply reports as started.
    pub async fn create(
        &self,
        runtime: &OciRuntime,
        container: &CreateContainer,
        limit: Duration,
    ) -> Result<Created> {
        let pid_file = container.bundle.join("pid");
        let size = container.terminal_size.unwrap_or_default();
        let request = Create {
            container: container.id.clone(),
            call: runtime.create_call(container, &pid_file, limit),
            pid_file,
            log_path: container.log_path.clone().unwrap_or_default(),
            log_dir: container.log_dir.clone().unwrap_or_default(),
            log_policy: container.log_policy,
            tty: container.tty,
            stdin: container.stdin,
            stdin_once: container.stdin_once,
            oom_cgroup: container.oom_cgroup.clone().unwrap_or_default(),
            rows: size.rows,
            columns: size.columns,
            log_line_max: container.log_line_max.unwrap_or_default(),
            running: container.restore.is_some(),
            log_rate: container.log_rate.unwrap_or_default(),
            log_size: container.log_size.unwrap_or_default(),
            streams: false,
            attaches: runtime.attaches(container),
            fifo: if container.starts && container.restore.is_none() {
                runtime.start_fifo(&container.id)
            } else {
                PathBuf::new()
            },
        };
        let action = container.action();
        self.call_runtime(runtime, action, &container.id, &request, limit)
            .await
    }

    /// Starts a created container.
    pub async fn start(
        &self,
        runtime: &OciRuntime,
        id: &str,
        bundle: &Path,
        by: StartBy,
        limit: Duration,
    ) -> Result<Started> {
        let request = Start {
            container: id.to_owned(),
            call: runtime.start_call(id, bundle, limit),
            fifo: match by {
                StartBy::Keeper => runtime.start_fifo(id),
                StartBy::Runtime => PathBuf::new(),
            },
        };
        self.call_runtime(runtime, "start", id, &request, limit)
            .await
    }

    /// Signals a container's first process directly. This works for all runtimes whose containers are processes of this
    /// kernel. Succeeds if the process has ended.
    pub async fn kill(&self, id: &str, signal: u32) -> Result<()> {
        let doing = format!("signalling container {id}");
        let request = Kill {
            container: id.to_owned(),
            signal,
            call: None,
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }

    /// Signals a container through its runtime; `all` means all of its processes.
    pub async fn kill_by_runtime(
        &self,
        runtime: &OciRuntime,
        id: &str,
        bundle: &Path,
        signal: u32,
        all: bool,
        limit: Duration,
    ) -> Result<()> {
        let request = Kill {
            container: id.to_owned(),
            signal,
            call: Some(runtime.kill_call(id, bundle, signal, all, limit)),
        };
        self.call_runtime(runtime, "kill", id, &request, limit)
            .await?;
        Ok(())
    }

    /// Deletes a container through its runtime, which kills it if it runs. Undoes its mounts and removes its exit
    /// record. May be repeated; succeeds for an unknown container.
    pub async fn delete(
        &self,
        runtime: &OciRuntime,
        id: &str,
        bundle: &Path,
        limit: Duration,
    ) -> Result<()> {
        let request = Delete {
            container: id.to_owned(),
            call: Some(runtime.delete_call(id, bundle, limit)),
        };
        self.call_runtime(runtime, "delete", id, &request, limit)
            .await?;
        Ok(())
    }

    /// Removes a container from the keeper without calling the runtime, and undoes its mounts.
    pub async fn forget(&self, id: &str) -> Result<()> {
        let doing = format!("removing container {id} from the keeper");
        let request = Delete {
            container: id.to_owned(),
            call: None,
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }

    /// Reopens a container's log after a rotation. No line is lost or split.
    pub async fn reopen_log(&self, id: &str) -> Result<()> {
        let doing = format!("reopening the log of container {id}");
        let request = ReopenLog {
            container: id.to_owned(),
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }

    /// Sets the size of a container's terminal.
    pub async fn resize(&self, id: &str, size: TerminalSize) -> Result<()> {
        let doing = format!("resizing the terminal of container {id}");
        let request = Resize {
            container: id.to_owned(),
            rows: size.rows,
            columns: size.columns,
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }
}
