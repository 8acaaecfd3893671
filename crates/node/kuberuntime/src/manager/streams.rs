//! Exec, attach and port-forward requests to the manager.

use std::path::Path;
use std::time::Duration;

use orlop_cri_api::v1;
use orlop_kubelet_rules::status::ContainerState;

use super::Manager;
use crate::error::RequestError;

/// The streams of an exec or attach session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecStreams {
    /// Connect the standard input.
    pub stdin: bool,
    /// Connect the standard output.
    pub stdout: bool,
    /// Connect the standard error.
    pub stderr: bool,
    /// Use a terminal.
    pub tty: bool,
}

impl Manager {
    /// Requests a URL for running a command in a container.
    pub async fn exec_url(
        &self,
        uid: &str,
        container: &str,
        command: Vec<String>,
        streams: ExecStreams,
    ) -> Result<String, RequestError> {
        let request = v1::ExecRequest {
            container_id: self.running(uid, container)?,
            cmd: command,
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        Ok(self.ctx.runtime.exec(request).await?)
    }

    /// Checkpoints a container into an archive.
    pub async fn checkpoint(
        &self,
        uid: &str,
        container: &str,
        location: &Path,
        timeout: Option<Duration>,
    ) -> Result<(), RequestError> {
        let id = self.running(uid, container)?;
        let location = location.to_string_lossy();
        let written = self
            .ctx
            .runtime
            .checkpoint_container(&id, &location, timeout);
        Ok(written.await?)
    }

    /// Requests a URL for attaching to a container, with the streams that are available: input and
    /// terminal only if the container was created with them.
    pub async fn attach_url(
        &self,
        uid: &str,
        container: &str,
        streams: ExecStreams,
    ) -> Result<(String, ExecStreams), RequestError> {
        let id = self.running(uid, container)?;
        let (input, _) = self.worker(uid)?.snapshot();
        let ephemeral = input
            .pod
            .spec
            .ephemeral_containers
            .iter()
            .map(|c| &c.container);
        let spec = input
            .pod
            .spec
            .init_and_regular()
            .chain(ephemeral)
            .find(|c| c.name == container);
        let tty = spec.is_some_and(|c| c.tty);
        let given = ExecStreams {
            stdin: streams.stdin && spec.is_some_and(|c| c.stdin),
            stdout: streams.stdout,
            stderr: streams.stderr && !tty,
            tty,
        };
        let request = v1::AttachRequest {
            container_id: id,
            tty: given.tty,
            stdin: given.stdin,
            stdout: given.stdout,
            stderr: given.stderr,
        };
        Ok((self.ctx.runtime.attach(request).await?, given))
    }

    /// Requests a URL for forwarding connections into a pod.
    pub async fn port_forward_url(
        &self,
        uid: &str,
        ports: Vec<i32>,
    ) -> Result<String, RequestError> {
        let (_, seen) = self.worker(uid)?.snapshot();
        let sandbox = seen.status.sandboxes().iter().find(|s| s.ready);
        let sandbox = sandbox.ok_or_else(|| RequestError::NotRunning {
            pod: uid.to_owned(),
            container: "(pod sandbox)".to_owned(),
        })?;
        Ok(self.ctx.runtime.port_forward(&sandbox.id, ports).await?)
    }

    /// Runs a command to completion, for `/run`; the answer contains both outputs.
    pub async fn run_in_container(
        &self,
        uid: &str,
        container: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse, RequestError> {
        let id = self.running(uid, container)?;
        Ok(self.ctx.runtime.exec_sync(&id, command, timeout).await?)
    }

    /// Returns the id of a running container.
    fn running(&self, uid: &str, container: &str) -> Result<String, RequestError> {
        let (_, seen) = self.worker(uid)?.snapshot();
        let (pod, container) = (uid.to_owned(), container.to_owned());
        match seen.status.newest(&container) {
            None => Err(RequestError::NoContainer { pod, container }),
            Some(c) if c.state != ContainerState::Running => {
                Err(RequestError::NotRunning { pod, container })
            }
            Some(c) => Ok(c.id.clone()),
        }
    }
}
