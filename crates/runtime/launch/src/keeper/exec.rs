//! Commands run in a container.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use orlop_keeper_protocol::{Exec, ForgetExec, KillExec};

use super::client::{Keeper, REQUEST_LIMIT};
use crate::create_container::TerminalSize;
use crate::error::Result;
use crate::runtime::OciRuntime;

/// A command to be run in a container.
#[derive(Debug)]
pub struct ExecCommand {
    /// The session's identity, unique among the pod's.
    pub id: String,
    /// The container.
    pub container: String,
    /// An existing directory of the session, with its OCI `process.json`; the process id and
    /// runtime log are written there too.
    pub dir: PathBuf,
    /// Its standard streams.
    pub io: ExecIo,
}

/// The standard streams of an exec'd command.
#[derive(Debug)]
pub enum ExecIo {
    /// A terminal, as `process.json` must say too; its controlling end is
    /// [`StartedExec::terminal`].
    Terminal(Option<TerminalSize>),
    /// The command's own ends of pipes, sockets or files, in blocking mode: the command knows no
    /// other.
    Streams {
        /// To read from.
        stdin: OwnedFd,
        /// To write to.
        stdout: OwnedFd,
        /// To write errors to.
        stderr: OwnedFd,
    },
}

/// A command that runs.
#[derive(Debug)]
pub struct StartedExec {
    /// Its first process.
    pub pid: u32,
    /// The controlling end of its terminal, if it has one; resized with the usual ioctl.
    pub terminal: Option<OwnedFd>,
}

impl Keeper {
    /// Runs a command in a running container. Its data does not pass the keeper. Its end is told
    /// by [`ExecExited`](crate::KeeperEvent::ExecExited), which may come before this returns.
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

    /// Signals an exec'd command and all that descends from it. One that has ended is no error,
    /// and what it left behind is still signalled.
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

    /// Forgets a finished session.
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
