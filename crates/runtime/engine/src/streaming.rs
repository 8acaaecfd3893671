//! Backend of the streaming server: exec, attach and port forwarding.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use orlop_cri_server::sessions::Host;
use orlop_cri_server::until_end::UntilEnd;
use orlop_launch::{AttachStreams, ExecIo, Keeper};
use orlop_streaming::{
    AttachRequest, Duplex, ExecRequest, ExitOutcome, Pipes, Resizes, ServeError,
    Session as ClientSession,
};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::TcpStream;

use crate::container::command::{Session, no_input, streams};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::record::container::Container;
use crate::record::containers::Containers;
use crate::record::pods::Pods;

/// Time to wait for the size of a client's terminal, which comes with its first message.
const FIRST_SIZE: Duration = Duration::from_millis(200);

/// Time limit to connect to a port of a pod.
const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// The streaming server's access to the node. The reference is weak, as the node owns the server.
#[derive(Debug)]
pub struct Sessions(pub Weak<Node>);

impl Sessions {
    fn node(&self) -> Result<Arc<Node>> {
        let node = self.0.upgrade();
        node.ok_or_else(|| Error::Internal("the daemon is shutting down".into()).into())
    }
}

impl Host for Sessions {
    type Failure = Error;

    async fn exec(&self, request: ExecRequest, client: ClientSession) -> Result<ExitOutcome> {
        exec(&self.node()?, request, client).await
    }

    async fn attach(&self, request: AttachRequest, client: ClientSession) -> Result<()> {
        attach(&self.node()?.containers, request, client).await
    }

    async fn port_forward(&self, pod_id: &str, port: u16) -> Result<Box<dyn Duplex>> {
        port_forward(&self.node()?.pods, pod_id, port).await
    }
}

async fn exec(
    node: &Arc<Node>,
    request: ExecRequest,
    mut client: ClientSession,
) -> Result<ExitOutcome> {
    let container = node.containers.running(&request.container_id)?;
    let (io, pipes) = if request.tty {
        (
            ExecIo::Terminal(first_size(&mut client.resizes).await),
            Pipes::default(),
        )
    } else {
        command_streams(&request)?
    };
    let mut command = Session::start(node, &container, &request.cmd, io).await?;
    let served = match command.terminal.take() {
        Some(terminal) => client.serve_terminal(terminal, command.wait()).await,
        None => client.serve_pipes(pipes, command.wait()).await,
    };
    match served {
        Ok(status) => {
            let status = status?;
            command.finish();
            Ok(ExitOutcome::Exited(
                i32::try_from(status.code).unwrap_or(-1),
            ))
        }
        Err(ServeError::Gone) => {
            command.kill().await;
            Ok(ExitOutcome::Abandoned)
        }
    }
}

async fn first_size(resizes: &mut Option<Resizes>) -> Option<orlop_launch::TerminalSize> {
    let size = resizes.as_mut()?.first(FIRST_SIZE).await?;
    Some(orlop_launch::TerminalSize {
        columns: size.width,
        rows: size.height,
    })
}

/// Creates pipes for the streams that the client requests; the others are `/dev/null`.
fn command_streams(request: &ExecRequest) -> Result<(ExecIo, Pipes)> {
    let mut pipes = Pipes::default();
    let stdin = if request.stdin {
        let (theirs, ours) = pipe()?;
        pipes.stdin = Some(ours);
        theirs
    } else {
        no_input()?
    };
    let output = |wanted: bool, ours: &mut Option<OwnedFd>| {
        if !wanted {
            return no_output();
        }
        let (read, write) = pipe()?;
        *ours = Some(read);
        Ok(write)
    };
    let stdout = output(request.stdout, &mut pipes.stdout)?;
    let stderr = output(request.stderr, &mut pipes.stderr)?;
    Ok((streams(stdin, stdout, stderr), pipes))
}

async fn attach(
    containers: &Containers,
    request: AttachRequest,
    mut client: ClientSession,
) -> Result<()> {
    let container = containers.running(&request.container_id)?;
    let keeper = container.pod.keeper()?;
    let mut pipes = Pipes::default();
    let mut theirs = AttachStreams::default();
    if request.stdin && container.config.stdin {
        let (read, write) = pipe()?;
        theirs.stdin = Some(read);
        pipes.stdin = Some(write);
    }
    if request.stdout {
        let (read, write) = pipe()?;
        theirs.stdout = Some(write);
        pipes.stdout = Some(read);
    }
    // A terminal has no separate standard error.
    if request.stderr && !container.config.tty {
        let (read, write) = pipe()?;
        theirs.stderr = Some(write);
        pipes.stderr = Some(read);
    }
    let attachment = keeper
        .attach(container.id.as_str(), theirs)
        .await
        .map_err(|source| Error::Launch {
            doing: format!("attaching to container {}", container.id),
            source,
        })?;
    let resizes = client.resizes.take();
    tokio::select! {
        _ = client.serve_pipes(pipes, container.wait()) => {}
        () = follow_size(&keeper, &container, resizes) => {}
    }
    if let Err(error) = keeper.detach(attachment).await {
        tracing::debug!(container = %container.id, %error, "cannot detach from a container");
    }
    Ok(())
}

/// Forwards the client's terminal sizes to the keeper; never returns.
async fn follow_size(keeper: &Keeper, container: &Container, resizes: Option<Resizes>) {
    if let Some(mut resizes) = resizes.filter(|_| container.config.tty) {
        while let Some(size) = resizes.next().await {
            let size = orlop_launch::TerminalSize {
                columns: size.width,
                rows: size.height,
            };
            if let Err(error) = keeper.resize(container.id.as_str(), size).await {
                tracing::debug!(container = %container.id, %error, "cannot resize a terminal");
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn port_forward(pods: &Pods, pod_id: &str, port: u16) -> Result<Box<dyn Duplex>> {
    let pod = pods.find(pod_id)?;
    let doing = format!("forwarding port {port} of pod sandbox {}", pod.id);
    let keeper = pod.keeper()?;
    let stream = keeper.dial(port, DIAL_LIMIT).await;
    let stream = stream.map_err(|source| Error::Launch {
        doing: doing.clone(),
        source,
    })?;
    stream
        .set_nonblocking(true)
        .map_err(Error::io(doing.clone()))?;
    let stream = TcpStream::from_std(stream).map_err(Error::io(doing))?;
    let ended = Box::pin(async move { keeper.ended().await });
    Ok(Box::new(UntilEnd::new(stream, ended)))
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let failed = Error::io("creating a pipe for a session");
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()).into())
}

fn no_output() -> Result<OwnedFd> {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    Ok(null.map_err(Error::io("opening /dev/null"))?.into())
}
