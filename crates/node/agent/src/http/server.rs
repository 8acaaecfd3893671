//! The listeners: HTTPS, read-only HTTP, health, and the control socket of root.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_listen::{
    AcceptLoop, Activity, CipherSuite, Connection, HeadLimits, Listener, Tls, TlsError, TlsFiles,
    TlsRules, TlsTerms, TlsVersion, serve_http1,
};
use orlop_pool::blocking;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::certificate;
use super::router::{Door, Router};
use crate::AgentError;
use crate::access::Access;
use crate::shared::Shared;

/// Limit of connections. Each stream uses one for its whole life.
const MAX_CONNECTIONS: usize = 512;
const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(10),
    bytes: 64 << 10,
};

/// All servers of an agent.
#[derive(Debug)]
pub(crate) struct Servers {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    address: Option<SocketAddr>,
}

impl Servers {
    /// Opens the listeners that the configuration enables.
    pub(crate) async fn start(shared: &Shared) -> Result<Self, AgentError> {
        let written = shared.configuration();
        let router = Arc::new(Router::new(shared.clone(), Access::new(shared.options())?));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut address = None;
        if written.enable_server {
            let options = shared.options().clone();
            let tls = blocking(move || {
                let files = certificate::files(&options)?;
                let configuration = &options.configuration;
                load_tls(
                    files,
                    &configuration.tls_min_version,
                    &configuration.tls_cipher_suites,
                )
            });
            let tls = tls
                .await
                .map_err(|error| AgentError::Certificate(error.to_string()))??;
            let (listener, at) = listen(written.address, written.port)?;
            tracing::info!(address = %at, "serving the kubelet's API over HTTPS");
            address = Some(at);
            let serving = Serving {
                router: Arc::clone(&router),
                door: Door::Guarded,
                tls: Some(Arc::new(tls)),
            };
            tasks.spawn(serving.run(listener, stop.clone()));
        }
        for (door, ip, port) in [
            (Door::ReadOnly, written.address, written.read_only_port),
            (
                Door::Health,
                written.healthz_bind_address,
                written.healthz_port,
            ),
        ] {
            if port != 0 {
                let (listener, at) = listen(ip, port)?;
                tracing::info!(address = %at, ?door, "serving HTTP");
                let serving = Serving {
                    router: Arc::clone(&router),
                    door,
                    tls: None,
                };
                tasks.spawn(serving.run(listener, stop.clone()));
            }
        }
        if let Some(path) = shared.options().control_socket.clone() {
            let listener = listen_unix(&path)?;
            let serving = Serving {
                router,
                door: Door::Root,
                tls: None,
            };
            tasks.spawn(serving.run(listener, stop.clone()));
        }
        Ok(Self {
            tasks,
            stop,
            address,
        })
    }

    /// Returns the address of the HTTPS server.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Closes all listeners.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.tasks.shutdown().await;
    }
}

fn listen(ip: IpAddr, port: u16) -> Result<(Listener, SocketAddr), AgentError> {
    let address = SocketAddr::new(ip, port);
    let listener = Listener::tcp(address).map_err(|source| AgentError::Listen {
        address: address.to_string(),
        source,
    })?;
    let address = listener.tcp_address().unwrap_or(address);
    Ok((listener, address))
}

/// Listens on a socket that only root can connect to. It replaces a stale socket.
fn listen_unix(path: &Path) -> Result<Listener, AgentError> {
    Listener::unix(path, 0o600, None).map_err(|source| AgentError::Listen {
        address: path.display().to_string(),
        source,
    })
}

/// One listener.
struct Serving {
    router: Arc<Router>,
    door: Door,
    tls: Option<Arc<Tls>>,
}

impl Serving {
    async fn run(self, listener: Listener, stop: CancellationToken) {
        let accepting = AcceptLoop::new("cannot accept a client", MAX_CONNECTIONS);
        let each = |stream, activity| {
            let (router, door) = (Arc::clone(&self.router), self.door);
            let tls = self.tls.clone();
            async move {
                match tls {
                    Some(tls) => secure((stream, activity), &tls, router, door).await,
                    None => serve((stream, activity), router, door, door == Door::Root).await,
                }
            }
        };
        accepting.run(listener, stop, each).await;
    }
}

async fn secure(
    (stream, activity): (Connection, Activity),
    tls: &Arc<Tls>,
    router: Arc<Router>,
    door: Door,
) {
    let Some(stream) = tls.accept(stream).await else {
        return;
    };
    // The TLS verifier has checked it: a certificate that is present is valid.
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .is_some_and(|certificates| !certificates.is_empty());
    serve((stream, activity), router, door, certificate).await;
}

async fn serve<S>((stream, activity): (S, Activity), router: Arc<Router>, door: Door, trusted: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let answer = |request| {
        let router = Arc::clone(&router);
        async move { router.answer(request, door, trusted).await }
    };
    if let Err(error) = serve_http1(stream, HEAD, activity, answer).await {
        tracing::debug!(%error, "a client connection failed");
    }
}

/// Parses a list of cipher suites and ignores unsupported ones, because kubelet lists often contain
/// insecure suites.
fn cipher_suites(names: &[String]) -> Result<Vec<CipherSuite>, AgentError> {
    let mut suites = Vec::new();
    let mut problems = Vec::new();
    for name in names {
        match name.parse() {
            Ok(suite) => suites.push(suite),
            Err(problem) => problems.push(format!("tlsCipherSuites: {problem}")),
        }
    }
    match problems.join("; ") {
        problem if problem.is_empty() => {}
        problem if suites.is_empty() => return Err(AgentError::Setting(problem)),
        problem => tracing::warn!("ignored TLS cipher suites: {problem}"),
    }
    Ok(suites)
}

/// Builds the TLS settings of the HTTPS server.
fn load_tls(files: TlsFiles, min_version: &str, suites: &[String]) -> Result<Tls, AgentError> {
    let oldest = match min_version {
        "" | "VersionTLS10" | "VersionTLS11" => TlsVersion::default(),
        named => named
            .parse()
            .map_err(|problem| AgentError::Setting(format!("tlsMinVersion: {problem}")))?,
    };
    let suites = cipher_suites(suites)?;
    let rules = TlsRules {
        whom: "a client",
        // A client without a certificate may have a token.
        certificate_is_optional: true,
        terms: TlsTerms { oldest, suites },
    };
    Tls::load(files, rules).map_err(|error| {
        let unusable =
            |path: &Path, why: &dyn Display| format!("cannot read {}: {why}", path.display());
        AgentError::Certificate(match error {
            TlsError::File { path, source, .. } => unusable(&path, &source),
            TlsError::ClientAuthority { path, source } => unusable(&path, &source),
            TlsError::Server(source) => source.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_control_socket_s_place_is_taken_from_nobody_and_left_to_a_successor() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "words").unwrap();
        assert!(listen_unix(&precious).is_err());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "words");
        let path = dir.path().join("made/node.sock");
        let first = listen_unix(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(listen_unix(&path).is_err());
        let moved = dir.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        let _second = listen_unix(&path).unwrap();
        drop(first);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
    }
}
