//! Exec calls, and URLs for streaming sessions.

use std::time::Duration;

use tonic::Code;

use super::RuntimeClient;
use crate::client::call::unary;
use crate::client::{ClientError, validate};
use crate::{Rpc, v1};

impl RuntimeClient {
    /// Runs a command and returns its output and exit code, also if it is not zero. A command that exceeds the timeout
    /// fails with [`ClientError::CommandTimedOut`]. A timeout of zero means no limit, also for the call.
    pub async fn exec_sync(
        &self,
        id: &str,
        cmd: Vec<String>,
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse, ClientError> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let message = v1::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd,
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let limit = Duration::from_secs(seconds);
        let deadline = if limit.is_zero() {
            None
        } else {
            self.caller.usual_and(limit)
        };
        match unary!(self.exec_sync as ExecSync within deadline, message) {
            Err(error) if error.code() == Code::DeadlineExceeded => {
                Err(ClientError::CommandTimedOut { after: limit })
            }
            result => result,
        }
    }

    /// Returns a URL to run the command.
    pub async fn exec(&self, message: v1::ExecRequest) -> Result<String, ClientError> {
        check_streams(
            Rpc::Exec,
            message.tty,
            [message.stdin, message.stdout, message.stderr],
        )?;
        let answer = unary!(self.exec as Exec within self.caller.usual(), message)?;
        validate::filled(Rpc::Exec, "url", answer.url)
    }

    /// Returns a URL to attach to the container's streams.
    pub async fn attach(&self, message: v1::AttachRequest) -> Result<String, ClientError> {
        check_streams(
            Rpc::Attach,
            message.tty,
            [message.stdin, message.stdout, message.stderr],
        )?;
        let answer = unary!(self.attach as Attach within self.caller.usual(), message)?;
        validate::filled(Rpc::Attach, "url", answer.url)
    }

    /// Returns a URL to forward ports of the pod.
    pub async fn port_forward(&self, pod: &str, ports: Vec<i32>) -> Result<String, ClientError> {
        let message = v1::PortForwardRequest {
            pod_sandbox_id: pod.to_owned(),
            port: ports,
        };
        let answer = unary!(self.port_forward as PortForward within self.caller.usual(), message)?;
        validate::filled(Rpc::PortForward, "url", answer.url)
    }
}

/// Checks the stream flags against the interface here, so that every runtime gives the same error.
fn check_streams(
    rpc: Rpc,
    tty: bool,
    [stdin, stdout, stderr]: [bool; 3],
) -> Result<(), ClientError> {
    if tty && stderr {
        return Err(ClientError::Argument {
            rpc,
            reason: "a terminal has no stderr of its own",
        });
    }
    if !(stdin || stdout || stderr) {
        return Err(ClientError::Argument {
            rpc,
            reason: "at least one of stdin, stdout and stderr is required",
        });
    }
    Ok(())
}
