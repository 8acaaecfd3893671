//! Commands that run in an existing container (exec).

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_launch::{ExecCommand, ExecIo, ExitStatus, Keeper};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::blocking;
use crate::container::bundle;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::record::container::Container;
use crate::record::directories::remove_tree;
use crate::record::ids::ContainerId;

/// Time limit for the runtime to start a command, after which it is killed.
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running command. It is killed if the session is dropped before the command has ended.
#[derive(Debug)]
pub struct Session {
    node: Arc<Node>,
    keeper: Keeper,
    id: String,
    dir: PathBuf,
    end: oneshot::Receiver<ExitStatus>,
    over: bool,
    /// The controlling end of the command's terminal, if it has one.
    pub terminal: Option<OwnedFd>,
}

impl Session {
    /// Starts a command with the container's user, environment and limits. If the caller is canceled meanwhile, the
    /// start completes and is then undone, so that no command is left.
    pub async fn start(
        node: &Arc<Node>,
        container: &Arc<Container>,
        command: &[String],
        io: ExecIo,
    ) -> Result<Self> {
        let (node_too, container, command) =
            (Arc::clone(node), Arc::clone(container), command.to_vec());
        let start = async move { Self::begin(&node_too, &container, &command, io).await };
        node.finish(start).await
    }

    async fn begin(
        node: &Arc<Node>,
        container: &Arc<Container>,
        command: &[String],
        io: ExecIo,
    ) -> Result<Self> {
        let keeper = container.pod.keeper()?;
        let handler = node.runtimes.of(&container.pod)?;
        node.cgroups.expect_move(&handler.features, &node.tasks);
        // As random as a container ID; half of its length is enough.
        let id = ContainerId::random().as_str()[..32].to_owned();
        let dir = container.bundle.join(format!("exec-{id}"));
        let tty = matches!(io, ExecIo::Terminal(_));
        // Registered before its directory exists: cleanup removes directories of unregistered commands.
        let end = node.commands.expect(&id, &container.pod);
        let mut session = Self {
            node: Arc::clone(node),
            keeper,
            id: id.clone(),
            dir: dir.clone(),
            end,
            over: false,
            terminal: None,
        };
        let (container_too, dir_too, args) = (Arc::clone(container), dir.clone(), command.to_vec());
        let node_too = Arc::clone(node);
        blocking(move || {
            bundle::write_process(&node_too.config(), &container_too, &dir_too, &args, tty)
        })
        .await?;
        let command = ExecCommand {
            id,
            container: container.id.to_string(),
            dir,
            io,
        };
        let started = session
            .keeper
            .exec(&handler.runtime, command, START_LIMIT)
            .await;
        let started = started.map_err(|source| Error::Launch {
            doing: format!("running a command in container {}", container.id),
            source,
        })?;
        session.terminal = started.terminal;
        Ok(session)
    }

    /// Waits until the command has ended.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let status = (&mut self.end)
            .await
            .map_err(|_| Error::Internal("the pod's keeper exited".into()))?;
        self.over = true;
        Ok(status)
    }

    /// Kills the command and all its descendants.
    pub async fn kill(mut self) {
        if let Err(error) = self.keeper.kill_exec(&self.id, 9).await {
            tracing::warn!(exec = self.id, %error, "cannot kill a command");
        }
        self.over = true;
        self.tidy_up().await;
    }

    /// Cleans up after a command that has ended, in the background.
    pub fn finish(mut self) {
        self.over = true;
        let tasks = self.node.tasks.clone();
        tasks.spawn(async move { self.tidy_up().await });
    }

    async fn tidy_up(&self) {
        if let Err(error) = self.keeper.forget_exec(&self.id).await {
            tracing::debug!(exec = self.id, %error, "cannot remove a finished command from the keeper");
        }
        self.node.commands.forget(&self.id);
        let dir = self.dir.clone();
        let _ = blocking(move || remove_tree(&dir)).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (keeper, id, dir) = (self.keeper.clone(), self.id.clone(), self.dir.clone());
        self.node.commands.forget(&id);
        self.node.tasks.spawn(async move {
            let _ = keeper.kill_exec(&id, 9).await;
            let _ = keeper.forget_exec(&id).await;
            let _ = blocking(move || remove_tree(&dir)).await;
        });
    }
}

/// Creates a pipe for a command's output; returns the daemon's read end and the command's write end.
pub fn output_pipe() -> Result<(pipe::Receiver, OwnedFd)> {
    let doing = "creating a pipe for a command's output";
    let (ours, theirs) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::io(doing)(errno.into()))?;
    Ok((
        pipe::Receiver::from_owned_fd(ours).map_err(Error::io(doing))?,
        theirs,
    ))
}

/// Opens `/dev/null`, as standard input at end of file.
pub fn no_input() -> Result<OwnedFd> {
    Ok(std::fs::File::open("/dev/null")
        .map_err(Error::io("opening /dev/null"))?
        .into())
}

/// The three streams of a command without a terminal.
pub fn streams(stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> ExecIo {
    ExecIo::Streams {
        stdin,
        stdout,
        stderr,
    }
}
