//! Client of a pod's keeper.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_keeper_protocol::{
    Attach, Detach, Dial, FailureKind, List, Listing, Request, Shutdown, Welcome,
};
use orlop_text::duration::Timeout;

use super::connection::Connection;
use super::held::Held;
use crate::error::{Error, Result};
use crate::millis::millis;
use crate::runtime::OciRuntime;

/// Time limit for a request that calls no runtime.
pub(super) const REQUEST_LIMIT: Timeout = Timeout::from_secs(20);

/// Additional time to wait for the keeper's answer after the runtime's own time limit.
const GRACE: Duration = Duration::from_secs(5);

/// A connection to a pod's keeper. Clones share it; all requests run concurrently.
///
/// Dropping a future leaves its request running in the keeper.
#[derive(Clone, Debug)]
pub struct Keeper {
    connection: Arc<Connection>,
    welcome: Arc<Welcome>,
    process: Arc<Held>,
    init: Option<Arc<Init>>,
    dir: Arc<Path>,
}

/// The init process of the PID namespace that a pod's containers share.
#[derive(Debug)]
pub(super) struct Init {
    pub(super) pid: u32,
    pub(super) held: Held,
}

/// The keeper's ends of an attachment's streams. The caller keeps the other ends.
#[derive(Debug, Default)]
pub struct AttachStreams {
    /// Source of the container's input. End of file closes the container's standard input if that was requested at
    /// creation.
    pub stdin: Option<OwnedFd>,
    /// Destination of the container's output. A slow or closed reader ends the attachment.
    pub stdout: Option<OwnedFd>,
    /// Destination of the container's error output.
    pub stderr: Option<OwnedFd>,
}

impl Keeper {
    pub(super) fn new(
        connection: Arc<Connection>,
        welcome: Welcome,
        process: Arc<Held>,
        init: Option<Init>,
        dir: PathBuf,
    ) -> Self {
        Self {
            connection,
            welcome: Arc::new(welcome),
            process,
            init: init.map(Arc::new),
            dir: dir.into(),
        }
    }

    /// ID of the pod, as set at the keeper's start.
    pub fn pod_id(&self) -> &str {
        &self.welcome.pod_id
    }

    /// Process ID of the keeper.
    pub fn pid(&self) -> u32 {
        self.welcome.pid
    }

    /// Version of the protocol that the keeper speaks.
    pub fn version(&self) -> u32 {
        self.welcome.version
    }

    /// Path of the pod's network namespace, valid while the keeper lives. The host's namespace if the pod has none of
    /// its own.
    pub fn net_ns(&self) -> PathBuf {
        self.ns("net")
    }

    /// Path of the pod's IPC namespace; see [`Keeper::net_ns`].
    pub fn ipc_ns(&self) -> PathBuf {
        self.ns("ipc")
    }

    /// Path of the pod's UTS namespace; see [`Keeper::net_ns`].
    pub fn uts_ns(&self) -> PathBuf {
        self.ns("uts")
    }

    /// Path of the pod's user namespace; see [`Keeper::net_ns`].
    pub fn user_ns(&self) -> PathBuf {
        match self.welcome.user_ns_fd {
            Some(fd) => PathBuf::from(format!("/proc/{}/fd/{fd}", self.pid())),
            None => self.ns("user"),
        }
    }

    /// Path of the PID namespace that the pod's containers share, if they do and its init still lives. Check again
    /// after joining it: once the init has ended, the path may name another process.
    pub fn pid_ns(&self) -> Option<PathBuf> {
        let init = self.init.as_ref().filter(|init| !init.held.has_ended())?;
        Some(PathBuf::from(format!("/proc/{}/ns/pid", init.pid)))
    }

    /// Waits for the init of the shared PID namespace to exit, which ends all its containers. Returns at once if there
    /// is none.
    pub async fn init_ended(&self) {
        if let Some(init) = &self.init {
            init.held.ended().await;
        }
    }

    /// Whether the connection is still open, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    /// Whether the keeper's process has exited, independent of the connection.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Waits for the keeper's process to exit.
    pub async fn ended(&self) {
        self.process.ended().await;
    }

    /// Kills the keeper's process; the exit may take a moment.
    pub(super) fn kill_itself(&self) -> io::Result<()> {
        self.process.kill()
    }

    /// Directory of the pod.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lists all containers and exec sessions of the keeper, including those that have ended.
    pub async fn list(&self) -> Result<Listing> {
        let reply = self
            .call(
                "listing the pod's containers",
                &List {},
                Vec::new(),
                REQUEST_LIMIT.get(),
            )
            .await?;
        Ok(reply.0)
    }

    /// Attaches to a container's standard streams and returns the attachment's number. The streams reach end of file
    /// when the container ends.
    pub async fn attach(&self, container: &str, streams: AttachStreams) -> Result<u64> {
        let doing = format!("attaching to container {container}");
        let request = Attach {
            container: container.to_owned(),
            stdin: streams.stdin.is_some(),
            stdout: streams.stdout.is_some(),
            stderr: streams.stderr.is_some(),
            patient: false,
        };
        let fds = [streams.stdin, streams.stdout, streams.stderr];
        let fds = fds.into_iter().flatten().collect();
        let (reply, _) = self
            .call(&doing, &request, fds, REQUEST_LIMIT.get())
            .await?;
        Ok(reply.attachment)
    }

    /// Ends an attachment; the container continues. Succeeds if it has already ended.
    pub async fn detach(&self, attachment: u64) -> Result<()> {
        let request = Detach { attachment };
        self.call(
            "detaching from a container",
            &request,
            Vec::new(),
            REQUEST_LIMIT.get(),
        )
        .await?;
        Ok(())
    }

    /// Connects to a TCP port on the loopback interface of the pod's network namespace, IPv4 first, then IPv6.
    pub async fn dial(&self, port: u16, limit: Duration) -> Result<std::net::TcpStream> {
        let doing = format!("connecting to port {port} of the pod");
        let request = Dial {
            port,
            timeout_ms: millis(limit),
        };
        let (_, mut fds) = self
            .call(&doing, &request, Vec::new(), limit + GRACE)
            .await?;
        match fds.pop() {
            Some(socket) => Ok(socket.into()),
            None => Err(Error::Gone { doing }),
        }
    }

    /// Kills the pod's remaining processes, undoes its mounts, and stops the keeper, which ends the pod's namespaces.
    /// Succeeds if the keeper is already gone.
    pub async fn shutdown(&self) -> Result<()> {
        match self.tell_to_end().await {
            Err(Error::Gone { .. }) => Ok(()),
            told => told,
        }
    }

    /// Like [`Keeper::shutdown`], but returns an error if the keeper may not have received the request.
    pub(super) async fn tell_to_end(&self) -> Result<()> {
        let doing = "shutting down a keeper";
        let told = self.call(doing, &Shutdown {}, Vec::new(), REQUEST_LIMIT.get());
        match told.await {
            // An earlier request is already shutting it down.
            Ok(_)
            | Err(Error::Keeper {
                kind: FailureKind::WrongState,
                ..
            }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn call<R: Request>(
        &self,
        doing: &str,
        request: &R,
        fds: Vec<OwnedFd>,
        limit: Duration,
    ) -> Result<(R::Reply, Vec<OwnedFd>)> {
        self.connection.call(doing, request, fds, limit).await
    }

    pub(super) async fn call_runtime<R: Request>(
        &self,
        runtime: &OciRuntime,
        action: &str,
        container: &str,
        request: &R,
        limit: Duration,
    ) -> Result<R::Reply> {
        let reply = self
            .call_runtime_with(runtime, action, container, request, Vec::new(), limit)
            .await?;
        Ok(reply.0)
    }

    pub(super) async fn call_runtime_with<R: Request>(
        &self,
        runtime: &OciRuntime,
        action: &str,
        container: &str,
        request: &R,
        fds: Vec<OwnedFd>,
        limit: Duration,
    ) -> Result<(R::Reply, Vec<OwnedFd>)> {
        let doing = format!("{action} of container {container}");
        let reply = self
            .connection
            .call(&doing, request, fds, limit + GRACE)
            .await;
        reply.map_err(|error| match error {
            Error::Runtime(mut error) => {
                error.runtime.clone_from(&runtime.name);
                action.clone_into(&mut error.action);
                Error::Runtime(error)
            }
            other => other,
        })
    }

    fn ns(&self, kind: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/{kind}", self.pid()))
    }
}
