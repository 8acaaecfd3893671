//! Where the commands go: which endpoint, with what patience.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use orlop_cri_api::client::{
    ClientOptions, Connection, ImageClient, Observer, Outcome, RuntimeClient,
};
use orlop_cri_api::{Endpoint, Rpc};
use tonic::{Code, Status};

use super::flags::ClientFlags;
use super::settings::Settings;
use crate::host::Host;

/// Sockets of known runtimes, looked at in this order when no endpoint is given.
const KNOWN: [&str; 4] = [
    "/run/orlop/orlop.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
];

/// The patience with questions, and with calls that change something.
const QUICK: Duration = Duration::from_secs(2);
const PATIENT: Duration = Duration::from_mins(2);

/// Lists of whole nodes come in one message from runtimes that can't stream them.
const LARGEST_MESSAGE: usize = 256 << 20;

/// Whose words are spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Our own.
    #[default]
    Orlop,
    /// Those that scripts for crictl know, where ours are others.
    Crictl,
}

/// What the flags and the configuration amount to.
#[derive(Debug)]
pub(crate) struct Session {
    flags: ClientFlags,
    /// Whose words are spoken.
    pub(crate) dialect: Dialect,
    /// The machine under the command.
    pub(crate) host: Host,
    endpoint: Option<String>,
    image_endpoint: Option<String>,
    timeout: Option<Duration>,
    debug: bool,
    retries: i32,
    /// Say nothing on the standard error.
    quiet: bool,
    /// Pull the image before a container is created.
    pub(crate) pull_on_create: bool,
    /// Don't pull the image before a container is run.
    pub(crate) no_pull_on_run: bool,
}

impl Session {
    /// Reads the configuration; flags and environment beat it.
    pub(crate) fn open(flags: ClientFlags, dialect: Dialect) -> anyhow::Result<Self> {
        let settings = Settings::load(flags.config.as_deref())?;
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            endpoint: filled(flags.runtime_endpoint.clone()).or(settings.runtime_endpoint),
            image_endpoint: filled(flags.image_endpoint.clone()).or(settings.image_endpoint),
            timeout: flags
                .timeout
                .map(|span| span.0)
                .filter(|timeout| !timeout.is_zero())
                .or(settings.timeout),
            debug: flags.debug || settings.debug,
            quiet: false,
            retries: flags.max_retries.or(settings.max_retries).unwrap_or(0),
            pull_on_create: settings.pull_image_on_create,
            no_pull_on_run: settings.disable_pull_on_run,
            flags,
            dialect,
            host: Host::default(),
        })
    }

    /// The same on a machine that the program knows.
    pub(crate) fn on(self, host: Host) -> Self {
        Self { host, ..self }
    }

    /// Flags that lead another command of ours to the same place.
    pub(crate) fn flags_again(&self) -> Vec<OsString> {
        let mut flags = Vec::new();
        let mut add = |flag: &str, value: Option<OsString>| {
            if let Some(value) = value {
                flags.extend([OsString::from(flag), value]);
            }
        };
        add("--config", self.flags.config.clone().map(OsString::from));
        add(
            "--runtime-endpoint",
            self.endpoint.clone().map(OsString::from),
        );
        add(
            "--image-endpoint",
            self.image_endpoint.clone().map(OsString::from),
        );
        flags
    }

    /// The endpoint that a flag or the environment names: what `crictl.yaml` says may be another runtime.
    pub(crate) fn named_endpoint(&self) -> Option<&str> {
        let named = self.flags.runtime_endpoint.as_deref();
        named.filter(|endpoint| !endpoint.is_empty())
    }

    /// The endpoint that is meant; that of the first runtime that answers, if none is named.
    pub(crate) fn runtime_endpoint(&self) -> anyhow::Result<Endpoint> {
        match &self.endpoint {
            Some(endpoint) => Ok(endpoint.parse()?),
            None => found(self.quiet),
        }
    }

    /// The endpoint, for people.
    pub(crate) fn endpoint_shown(&self) -> String {
        self.endpoint
            .clone()
            .unwrap_or_else(|| "the first runtime found".to_owned())
    }

    /// The same for a shell that must not get any messages.
    pub(crate) fn open_quietly(flags: ClientFlags) -> anyhow::Result<Self> {
        Ok(Self {
            quiet: true,
            debug: false,
            retries: 0,
            ..Self::open(flags, Dialect::Orlop)?
        })
    }

    /// A client for questions.
    pub(crate) async fn runtime(&self) -> anyhow::Result<RuntimeClient> {
        Ok(self
            .connection(self.timeout.unwrap_or(QUICK))
            .await?
            .runtime())
    }

    /// A client for calls that change something; a flag of the command may set its patience.
    pub(crate) async fn patient_runtime(
        &self,
        timeout: Option<Duration>,
    ) -> anyhow::Result<RuntimeClient> {
        let timeout = timeout.or(self.timeout).unwrap_or(PATIENT);
        Ok(self.connection(timeout).await?.runtime())
    }

    /// The connection for questions, for several clients on it.
    pub(crate) async fn runtime_connection(&self) -> anyhow::Result<Connection> {
        self.connection(self.timeout.unwrap_or(QUICK)).await
    }

    /// A client of the image service.
    pub(crate) async fn images(&self) -> anyhow::Result<ImageClient> {
        Ok(self.quick_image_connection().await?.images())
    }

    /// A client of the image service for calls that change something.
    pub(crate) async fn patient_images(&self) -> anyhow::Result<ImageClient> {
        Ok(self
            .image_connection(self.timeout.unwrap_or(PATIENT))
            .await?
            .images())
    }

    /// The connection to the image service, for several clients on it.
    pub(crate) async fn patient_image_connection(&self) -> anyhow::Result<Connection> {
        self.image_connection(self.timeout.unwrap_or(PATIENT)).await
    }

    /// The connection to the image service for questions, for several clients on it.
    pub(crate) async fn quick_image_connection(&self) -> anyhow::Result<Connection> {
        self.image_connection(self.timeout.unwrap_or(QUICK)).await
    }

    /// The connection to the runtime, for what orlop does beyond the CRI.
    pub(crate) async fn patient_connection(&self) -> anyhow::Result<Connection> {
        self.connection(self.timeout.unwrap_or(PATIENT)).await
    }

    async fn image_connection(&self, timeout: Duration) -> anyhow::Result<Connection> {
        match &self.image_endpoint {
            Some(endpoint) => self.connect(endpoint, timeout).await,
            None => self.connection(timeout).await,
        }
    }

    async fn connection(&self, timeout: Duration) -> anyhow::Result<Connection> {
        match &self.endpoint {
            Some(endpoint) => self.connect(endpoint, timeout).await,
            None => Ok(self.to(self.runtime_endpoint()?, timeout)),
        }
    }

    async fn connect(&self, endpoint: &str, timeout: Duration) -> anyhow::Result<Connection> {
        let endpoint: Endpoint = endpoint.parse()?;
        if let Some(path) = endpoint.unix_path() {
            self.await_socket(path).await;
        }
        Ok(self.to(endpoint, timeout))
    }

    /// Waits for a socket as often as asked for. That there is none is said by the first call.
    async fn await_socket(&self, path: &Path) {
        let mut delay = Duration::from_millis(500);
        let mut attempt = 0;
        while (self.retries < 0 || attempt < self.retries) && !answers(path) {
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(Duration::from_secs(5));
            attempt += 1;
        }
    }

    fn to(&self, endpoint: Endpoint, timeout: Duration) -> Connection {
        if self.debug {
            say!("using {endpoint}, with a timeout of {timeout:?}");
        }
        let observer = self.debug.then(|| Arc::new(Narrator) as Arc<dyn Observer>);
        Connection::new(
            endpoint,
            ClientOptions {
                timeout,
                max_message: LARGEST_MESSAGE,
                observer,
                ..Default::default()
            },
        )
    }
}

/// The first known socket that somebody answers on.
fn found(quiet: bool) -> anyhow::Result<Endpoint> {
    for (place, path) in KNOWN.iter().enumerate() {
        if answers(Path::new(path)) {
            if place > 0 && !quiet {
                say!("using {path}; select another endpoint with --runtime-endpoint");
            }
            return path.parse().context("cannot use a default endpoint");
        }
    }
    let denied = KNOWN.iter().find(|path| {
        UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    match denied {
        Some(path) => bail!(
            "permission denied to connect to {path}; run as root, or join the group of the socket"
        ),
        None => bail!(
            "no container runtime answers on {}; start one, or give its socket with \
             --runtime-endpoint unix:///path",
            KNOWN.join(", ")
        ),
    }
}

/// Connecting to a unix socket doesn't block: it succeeds or fails at once.
fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// What a refusal by one of orlop's own services means.
pub(crate) fn refused(status: Status) -> anyhow::Error {
    match status.code() {
        Code::Unimplemented if is_unknown(status.message()) => anyhow!(
            "the runtime on this endpoint does not support this call; it is another runtime or an \
             older version of orlop"
        ),
        Code::Unavailable => anyhow!(
            "the runtime does not answer: {}; check that it is running (`systemctl status orlop`)",
            status.message()
        ),
        _ => anyhow!("{} ({:?})", status.message(), status.code()),
    }
}

/// What servers say of a service or method that they don't have.
fn is_unknown(message: &str) -> bool {
    message.is_empty()
        || message.starts_with("unknown service")
        || message.starts_with("unknown method")
}

/// Tells of the calls on the standard error.
struct Narrator;

impl Observer for Narrator {
    fn ended(&self, rpc: Rpc, took: Duration, outcome: Outcome) {
        match outcome {
            Ok(()) => say!("{rpc}: {took:.1?}"),
            Err(code) => say!("{rpc}: {code:?} after {took:.1?}"),
        }
    }
}
