//! Exec, attach and port-forward for those who ask the manager.

use std::path::Path;
use std::time::Duration;

use orlop_cri_api::v1;
use orlop_kubelet_rules::status::ContainerState;

use super::Manager;
use crate::error::RequestError;

/// What an exec or attach session is to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecStreams {
    /// Send input.
    pub stdin: bool,
    /// Take output.
    pub stdout: bool,
    /// Take error output.
    pub stderr: bool,
    /// With a terminal.
    pub tty: bool,
}

impl Manager {
    /// A URL on which a command can be run in a container.
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

    /// Writes a container out to an archive.
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

    /// A URL on which a container's own streams can be had, and those that can be: input and
    /// terminal are given only where the container was made with them.
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

    /// A URL on which connections into a pod can be made.
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

    /// Runs a command to its end, for `/run`; both outputs are in the answer.
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

    /// The id of a container that runs.
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
