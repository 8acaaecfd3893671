//! Backend of the streaming server: connects sessions to commands, containers and ports.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_server::sessions::{Host, Streaming};
use orlop_cri_server::until_end::{UntilEnd, end_of};
use orlop_network::netns;
use orlop_pool::{Place, Refused};
use orlop_streaming::{
    AttachRequest, Duplex, ExecRequest, ExitOutcome, Input, Output, Resizes, Server, Session,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::sleep;

use crate::docker::{Docker, DockerError, ExecConfig, Frames, Hijacked, Source, Streams};
use crate::error::{Error, Result};
use crate::exec::{Execs, Running};
use crate::find;

/// Timeout for connecting to a port of a pod.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// How long the detection of a vanished client takes.
const VANISHING: Duration = Duration::from_secs(1);
const BUFFER: usize = 32 * 1024;

/// Starts the streaming server.
pub(crate) async fn listen(
    config: &Streaming,
    docker: Arc<Docker>,
    execs: Arc<Execs>,
) -> Result<Server> {
    let serving = config.serve(Sessions { docker, execs });
    Ok(serving.await.map_err(Error::Internal)?)
}

/// Connects sessions to their targets.
struct Sessions {
    docker: Arc<Docker>,
    execs: Arc<Execs>,
}

impl Host for Sessions {
    type Failure = Error;

    async fn exec(&self, request: ExecRequest, client: Session) -> Result<ExitOutcome> {
        exec(&self.docker, &self.execs, request, client).await
    }

    async fn attach(&self, request: AttachRequest, client: Session) -> Result<()> {
        attach(&self.docker, request, client).await
    }

    async fn port_forward(&self, pod_id: &str, port: u16) -> Result<Box<dyn Duplex>> {
        port_forward(&self.docker, pod_id, port).await
    }
}

async fn exec(
    docker: &Docker,
    execs: &Arc<Execs>,
    request: ExecRequest,
    client: Session,
) -> Result<ExitOutcome> {
    let container = find::running_container(docker, &request.container_id).await?;
    let failed = || Error::engine(format!("running a command in container {}", container.id));
    let config = ExecConfig {
        command: request.cmd,
        streams: Streams {
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
        },
        tty: request.tty,
    };
    let id = docker
        .create_exec(&container.id, &config)
        .await
        .map_err(failed())?;
    let mut running = Running::new(execs, &container.id, &id);
    let connection = docker
        .start_exec(&id, request.tty)
        .await
        .map_err(failed())?;
    let gone = client.gone.clone();
    let resize = |columns, rows| docker.resize_exec(&id, columns, rows);
    let work = async {
        serve(connection, request.tty, client, resize).await;
        running.end().await
    };
    let ended = gone.run_until_cancelled(work).await;
    if let Some(code) = ended {
        Ok(ExitOutcome::Exited(code.map_err(failed())?))
    } else {
        running.kill().await;
        Ok(ExitOutcome::Abandoned)
    }
}

async fn attach(docker: &Docker, request: AttachRequest, client: Session) -> Result<()> {
    let container = find::running_container(docker, &request.container_id).await?;
    let terminal = container.config.tty;
    let streams = Streams {
        stdin: request.stdin && container.config.open_stdin,
        stdout: request.stdout,
        stderr: request.stderr && !terminal,
    };
    let connection = docker
        .attach(&container.id, streams)
        .await
        .map_err(Error::engine(format!(
            "attaching to container {}",
            container.id
        )))?;
    let gone = client.gone.clone();
    let resize = |columns, rows| docker.resize_container(&container.id, columns, rows);
    gone.run_until_cancelled(serve(connection, terminal, client, resize))
        .await;
    Ok(())
}

/// Copies between a client and a process until the end of the process's output.
async fn serve<R, F>(connection: Hijacked, terminal: bool, client: Session, resize: R)
where
    R: Fn(u16, u16) -> F,
    F: Future<Output = Result<(), DockerError>>,
{
    let Session {
        stdin,
        stdout,
        stderr,
        resizes,
        ..
    } = client;
    let (reader, writer) = tokio::io::split(connection);
    let outputs = copy_outputs(reader, terminal, stdout, stderr);
    let sides = async {
        tokio::join!(feed(stdin, writer), follow_size(resizes, resize));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = outputs => {}
        () = sides => {}
    }
}

async fn feed(stdin: Option<Input>, mut writer: WriteHalf<Hijacked>) {
    let Some(mut stdin) = stdin else {
        // Returning would drop the other half of the connection, too.
        let () = std::future::pending().await;
        return;
    };
    let mut buffer = vec![0; BUFFER];
    loop {
        match stdin.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => {
                if writer.write_all(&buffer[..count]).await.is_err() {
                    break;
                }
            }
            Err(_) => {
                // Input ended uncleanly: what came may be half of a file. If the client has vanished, the session ends
                // before the process could take the input for complete.
                sleep(VANISHING).await;
                break;
            }
        }
    }
    // The process reads the end of its input.
    let _ = writer.shutdown().await;
}

async fn follow_size<R, F>(resizes: Option<Resizes>, resize: R)
where
    R: Fn(u16, u16) -> F,
    F: Future<Output = Result<(), DockerError>>,
{
    let Some(mut resizes) = resizes else { return };
    while let Some(size) = resizes.next().await {
        // The engine may still be creating the process.
        for pause in [
            Duration::ZERO,
            Duration::from_millis(50),
            Duration::from_millis(250),
        ] {
            sleep(pause).await;
            if resize(size.width, size.height).await.is_ok() {
                break;
            }
        }
    }
}

async fn copy_outputs(
    mut reader: ReadHalf<Hijacked>,
    terminal: bool,
    mut stdout: Option<Output>,
    mut stderr: Option<Output>,
) {
    let mut frames = Frames::new(terminal);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        frames.feed(&buffer[..count]);
        loop {
            let (source, bytes) = match frames.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the output of a streaming session");
                    return;
                }
            };
            let output = match source {
                Source::Stdout => &mut stdout,
                Source::Stderr | Source::System => &mut stderr,
            };
            // A client that closes one stream may still read the other.
            if let Some(open) = output
                && open.write(&bytes).await.is_err()
            {
                *output = None;
            }
        }
    }
}

async fn port_forward(docker: &Docker, pod: &str, port: u16) -> Result<Box<dyn Duplex>> {
    let sandbox = find::sandbox(docker, pod).await?;
    let doing = format!("forwarding port {port} of pod sandbox {}", sandbox.id);
    let pid = sandbox.state.pid;
    if pid <= 0 {
        let problem = format!("{doing}: the pod is not running");
        return Err(Error::Precondition(problem).into());
    }
    let dialled = dialled(&sandbox.id, pid, port).await;
    let (stream, process) = match dialled {
        Ok(stream) => stream.map_err(Error::io(doing.clone()))?,
        Err(refused @ Refused::Full { .. }) => {
            return Err(Error::Exhausted(format!("{doing}: {refused}")).into());
        }
        Err(Refused::NoThread { source, .. }) => return Err(Error::io(doing)(source).into()),
        Err(Refused::Panicked { .. }) => return Err(Error::Internal(doing).into()),
    };
    let stream = tokio::net::TcpStream::from_std(stream).map_err(Error::io(doing))?;
    Ok(Box::new(UntilEnd::new(stream, Box::pin(end_of(process)))))
}

/// A connection to a port of a pod, and a pidfd of the process that ends with the pod.
type Dialled = std::io::Result<(TcpStream, OwnedFd)>;

/// Connects to a port of a pod, with a timeout.
async fn dialled(pod: &str, pid: i32, port: u16) -> Result<Dialled, Refused> {
    static DIALLING: Place = Place::new("dialling ports of pods", 32, 4, 512);
    let dialling = DIALLING.run_for(pod, move || {
        let process = Pid::from_raw(pid).ok_or(std::io::ErrorKind::NotFound)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
        let stream = netns::inside(namespace.as_fd(), move || dial(port))?;
        Ok((stream, process))
    });
    dialling.await
}

/// Connects on the loopback interface over IPv4 or IPv6.
fn dial(port: u16) -> std::io::Result<TcpStream> {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&v4, DIAL_LIMIT)
        .or_else(|error| TcpStream::connect_timeout(&v6, DIAL_LIMIT).map_err(|_| error))?;
    stream.set_nonblocking(true)?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ports_that_do_not_answer_keep_no_thread_of_the_node_s() {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
        let deaf = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&deaf, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listen(&deaf, 0).unwrap();
        let address: SocketAddr = getsockname(&deaf).unwrap().try_into().unwrap();
        // The backlog has space for one connection; later ones are not accepted.
        let first = TcpStream::connect(address).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let dials = (0..100).map(|pod: u32| {
            tokio::spawn(async move { dialled(&pod.to_string(), own, address.port()).await })
        });
        let dials: Vec<_> = dials.collect();
        sleep(Duration::from_millis(500)).await;
        let node = tokio::time::timeout(Duration::from_secs(5), orlop_pool::blocking(|| 7));
        assert_eq!(node.await.expect("a thread of the node's").unwrap(), 7);
        assert!(
            dials.iter().any(|dial| !dial.is_finished()),
            "all are heard"
        );
        for dial in &dials {
            dial.abort();
        }
        drop(first);
    }
}
