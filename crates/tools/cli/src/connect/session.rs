//! The endpoint and the timeouts of a client command.

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

/// Sockets of known runtimes, in the order in which they are tried if no endpoint is given.
const KNOWN: [&str; 4] = [
    "/run/orlop/orlop.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
];

/// Timeouts of queries and of calls that change something.
const QUICK: Duration = Duration::from_secs(2);
const PATIENT: Duration = Duration::from_mins(2);

/// Message size limit. Runtimes without streaming lists send the list of a whole node in one message.
const LARGEST_MESSAGE: usize = 256 << 20;

/// Command line dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// orlop's own dialect.
    #[default]
    Orlop,
    /// crictl's dialect, for scripts that expect it.
    Crictl,
}

/// Connection settings, merged from flags and configuration.
#[derive(Debug)]
pub(crate) struct Session {
    flags: ClientFlags,
    /// Command line dialect.
    pub(crate) dialect: Dialect,
    /// The machine of the command.
    pub(crate) host: Host,
    endpoint: Option<String>,
    image_endpoint: Option<String>,
    timeout: Option<Duration>,
    debug: bool,
    retries: i32,
    /// Print nothing to standard error.
    quiet: bool,
    /// Pull the image before a container is created.
    pub(crate) pull_on_create: bool,
    /// Do not pull the image before a container is run.
    pub(crate) no_pull_on_run: bool,
}

impl Session {
    /// Reads the configuration; flags and environment variables override it.
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

    /// Sets what the program knows about the machine.
    pub(crate) fn on(self, host: Host) -> Self {
        Self { host, ..self }
    }

    /// Returns flags that connect another orlop command to the same endpoint.
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

    /// Returns the endpoint from a flag or the environment. One from `crictl.yaml` does not count, as it may be another
    /// runtime.
    pub(crate) fn named_endpoint(&self) -> Option<&str> {
        let named = self.flags.runtime_endpoint.as_deref();
        named.filter(|endpoint| !endpoint.is_empty())
    }

    /// Returns the configured endpoint, else that of the first known runtime that responds.
    pub(crate) fn runtime_endpoint(&self) -> anyhow::Result<Endpoint> {
        match &self.endpoint {
            Some(endpoint) => Ok(endpoint.parse()?),
            None => found(self.quiet),
        }
    }

    /// Returns the endpoint as text for messages.
    pub(crate) fn endpoint_shown(&self) -> String {
        self.endpoint
            .clone()
            .unwrap_or_else(|| "the first runtime found".to_owned())
    }

    /// Like `open`, but prints no messages, for shell completion.
    pub(crate) fn open_quietly(flags: ClientFlags) -> anyhow::Result<Self> {
        Ok(Self {
            quiet: true,
            debug: false,
            retries: 0,
            ..Self::open(flags, Dialect::Orlop)?
        })
    }

    /// Creates a client for queries.
    pub(crate) async fn runtime(&self) -> anyhow::Result<RuntimeClient> {
        Ok(self
            .connection(self.timeout.unwrap_or(QUICK))
            .await?
            .runtime())
    }

    /// Creates a client for calls that change something; a flag of the command may set the timeout.
    pub(crate) async fn patient_runtime(
        &self,
        timeout: Option<Duration>,
    ) -> anyhow::Result<RuntimeClient> {
        let timeout = timeout.or(self.timeout).unwrap_or(PATIENT);
        Ok(self.connection(timeout).await?.runtime())
    }

    /// Opens a connection for queries, to be shared by several clients.
    pub(crate) async fn runtime_connection(&self) -> anyhow::Result<Connection> {
        self.connection(self.timeout.unwrap_or(QUICK)).await
    }

    /// Creates a client of the image service.
    pub(crate) async fn images(&self) -> anyhow::Result<ImageClient> {
        Ok(self.quick_image_connection().await?.images())
    }

    /// Creates a client of the image service for calls that change something.
    pub(crate) async fn patient_images(&self) -> anyhow::Result<ImageClient> {
        Ok(self
            .image_connection(self.timeout.unwrap_or(PATIENT))
            .await?
            .images())
    }

    /// Opens a connection to the image service, to be shared by several clients.
    pub(crate) async fn patient_image_connection(&self) -> anyhow::Result<Connection> {
        self.image_connection(self.timeout.unwrap_or(PATIENT)).await
    }

    /// Opens a connection to the image service for queries, to be shared by several clients.
    pub(crate) async fn quick_image_connection(&self) -> anyhow::Result<Connection> {
        self.image_connection(self.timeout.unwrap_or(QUICK)).await
    }

    /// Opens a connection to the runtime for orlop's services beyond the CRI.
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

    /// Waits for the socket with the configured retries. If it is still missing, the first call reports that.
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

/// Returns the first known socket that accepts connections.
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

/// Returns whether the socket accepts a connection. On a unix socket, connecting does not block.
fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Explains an error of one of orlop's own services.
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

/// Returns whether this is a server's message for an unknown service or method.
fn is_unknown(message: &str) -> bool {
    message.is_empty()
        || message.starts_with("unknown service")
        || message.starts_with("unknown method")
}

/// Prints the calls to standard error.
struct Narrator;

impl Observer for Narrator {
    fn ended(&self, rpc: Rpc, took: Duration, outcome: Outcome) {
        match outcome {
            Ok(()) => say!("{rpc}: {took:.1?}"),
            Err(code) => say!("{rpc}: {code:?} after {took:.1?}"),
        }
    }
}
