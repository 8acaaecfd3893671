//! Commands that run in a container.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use orlop_keeper_protocol::{Exec, ForgetExec, KillExec};

use super::client::{Keeper, REQUEST_LIMIT};
use crate::create_container::TerminalSize;
use crate::error::Result;
use crate::runtime::OciRuntime;

/// A command to run in a container.
#[derive(Debug)]
pub struct ExecCommand {
    /// ID of the session, unique in the pod.
    pub id: String,
    /// ID of the container.
    pub container: String,
    /// An existing directory of the session with its OCI `process.json`. The process ID and runtime log are also
    /// written there.
    pub dir: PathBuf,
    /// Standard streams of the command.
    pub io: ExecIo,
}

/// The standard streams of an exec command.
#[derive(Debug)]
pub enum ExecIo {
    /// A terminal, which `process.json` must also set; its controlling end is [`StartedExec::terminal`].
    Terminal(Option<TerminalSize>),
    /// The command's ends of pipes, sockets or files, in blocking mode, as the command expects.
    Streams {
        /// Standard input.
        stdin: OwnedFd,
        /// Standard output.
        stdout: OwnedFd,
        /// Standard error.
        stderr: OwnedFd,
    },
}

/// A running exec command.
#[derive(Debug)]
pub struct StartedExec {
    /// Process ID of its first process.
    pub pid: u32,
    /// The controlling end of its terminal, if it has one; resize it with `TIOCSWINSZ`.
    pub terminal: Option<OwnedFd>,
}

impl Keeper {
    /// Runs a command in a running container. Its data does not pass through the keeper. An
    /// [`ExecExited`](crate::KeeperEvent::ExecExited) event reports its exit and may arrive before this returns.
    pub async fn exec(
        &self,
        runtime: &OciRuntime,
        command: ExecCommand,
        limit: Duration,
    ) -> Result<StartedExec> {
        let (fds, size) = match command.io {
            ExecIo::Terminal(size) => (Vec::new(), Some(size.unwrap_or_default())),
            ExecIo::Streams {
                stdin,
                stdout,
                stderr,
            } => (vec![stdin, stdout, stderr], None),
        };
        let tty = size.is_some();
        let size = size.unwrap_or_default();
        let pid_file = command.dir.join("pid");
        let request = Exec {
            exec: command.id.clone(),
            container: command.container.clone(),
            call: runtime.exec_call(&command.container, &command.dir, &pid_file, tty, limit),
            pid_file,
            tty,
            rows: size.rows,
            columns: size.columns,
        };
        let (started, mut fds) = self
            .call_runtime_with(runtime, "exec", &command.container, &request, fds, limit)
            .await?;
        Ok(StartedExec {
            pid: started.pid,
            terminal: fds.pop(),
        })
    }

    /// Signals an exec command and all its descendants, also those that it left behind. Succeeds if it has ended.
    pub async fn kill_exec(&self, exec: &str, signal: u32) -> Result<()> {
        let doing = format!("signalling exec session {exec}");
        let request = KillExec {
            exec: exec.to_owned(),
            signal,
            alone: false,
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }

    /// Removes a finished session from the keeper.
    pub async fn forget_exec(&self, exec: &str) -> Result<()> {
        let doing = format!("removing exec session {exec} from the keeper");
        let request = ForgetExec {
            exec: exec.to_owned(),
        };
        self.call(&doing, &request, Vec::new(), REQUEST_LIMIT.get())
            .await?;
        Ok(())
    }
}
