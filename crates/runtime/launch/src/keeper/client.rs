//! A keeper as the daemon sees it.

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

/// How long a request may take that calls no runtime.
pub(super) const REQUEST_LIMIT: Timeout = Timeout::from_secs(20);

/// How much longer than the runtime's own limit to wait for the keeper's answer.
const GRACE: Duration = Duration::from_secs(5);

/// A connection to a pod's keeper. Clones share it; requests of all run side by side.
///
/// A future that is dropped leaves its request running in the keeper.
#[derive(Clone, Debug)]
pub struct Keeper {
    connection: Arc<Connection>,
    welcome: Arc<Welcome>,
    process: Arc<Held>,
    init: Option<Arc<Init>>,
    dir: Arc<Path>,
}

/// The first process of the PID namespace that a pod's containers share.
#[derive(Debug)]
pub(super) struct Init {
    pub(super) pid: u32,
    pub(super) held: Held,
}

/// The daemon's ends of an attachment belong to the caller; these are the keeper's.
#[derive(Debug, Default)]
pub struct AttachStreams {
    /// From here the container's input is read. Its end closes the container's standard input if
    /// that was asked for at creation.
    pub stdin: Option<OwnedFd>,
    /// Here the container's output is written. Its reader being slow ends the attachment; so does
    /// the reader's going away.
    pub stdout: Option<OwnedFd>,
    /// Here the container's errors are written.
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

    /// The pod's identity, as the keeper was told.
    pub fn pod_id(&self) -> &str {
        &self.welcome.pod_id
    }

    /// The keeper's process id.
    pub fn pid(&self) -> u32 {
        self.welcome.pid
    }

    /// The protocol version that the keeper speaks.
    pub fn version(&self) -> u32 {
        self.welcome.version
    }

    /// The pod's network namespace, for as long as the keeper lives; the host's if the pod has
    /// none of its own.
    pub fn net_ns(&self) -> PathBuf {
        self.ns("net")
    }

    /// The pod's IPC namespace, likewise.
    pub fn ipc_ns(&self) -> PathBuf {
        self.ns("ipc")
    }

    /// The pod's UTS namespace, likewise.
    pub fn uts_ns(&self) -> PathBuf {
        self.ns("uts")
    }

    /// The pod's user namespace, likewise.
    pub fn user_ns(&self) -> PathBuf {
        match self.welcome.user_ns_fd {
            Some(fd) => PathBuf::from(format!("/proc/{}/fd/{fd}", self.pid())),
            None => self.ns("user"),
        }
    }

    /// The PID namespace that the pod's containers share, if they do and it still lives. The path
    /// may be another's once its init has ended: whoever joins it asks again afterwards.
    pub fn pid_ns(&self) -> Option<PathBuf> {
        let init = self.init.as_ref().filter(|init| !init.held.has_ended())?;
        Some(PathBuf::from(format!("/proc/{}/ns/pid", init.pid)))
    }

    /// Waits for the end of the init of the PID namespace that the pod's containers share, with
    /// which all of them end. Returns at once where there is none.
    pub async fn init_ended(&self) {
        if let Some(init) = &self.init {
            init.held.ended().await;
        }
    }

    /// Whether the connection still stands, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    /// Whether the keeper's process has ended, whatever became of the connection.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Waits for the end of the keeper's process.
    pub async fn ended(&self) {
        self.process.ended().await;
    }

    /// Kills the keeper's process, which may take a moment.
    pub(super) fn kill_itself(&self) -> io::Result<()> {
        self.process.kill()
    }

    /// The pod's directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// All that the keeper knows: containers and exec sessions, with those that have ended.
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

    /// Joins a container's standard streams; returns the attachment's number. The streams end
    /// (their readers see it) when the container does.
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

    /// Ends an attachment; the container goes on. One that has ended is no error.
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

    /// Connects to a TCP port on the loopback interface of the pod's network namespace, IPv4
    /// first, then IPv6.
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

    /// Kills what is left of the pod, undoes its mounts, ends the keeper and with it the pod's
    /// namespaces. A keeper that is gone already is no error.
    pub async fn shutdown(&self) -> Result<()> {
        match self.tell_to_end().await {
            Err(Error::Gone { .. }) => Ok(()),
            told => told,
        }
    }

    /// Like [`Keeper::shutdown`], but says so where it is not known whether the keeper was told.
    pub(super) async fn tell_to_end(&self) -> Result<()> {
        let doing = "shutting down a keeper";
        let told = self.call(doing, &Shutdown {}, Vec::new(), REQUEST_LIMIT.get());
        match told.await {
            // Or it was told before, by who has not heard of it.
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
