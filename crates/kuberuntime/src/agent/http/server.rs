//! The listeners: HTTPS, plain HTTP for reading, health, and the socket of root.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use orlop_disk::SocketFile;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::certificate;
use super::router::{Door, Router};
use super::tls::Tls;
use crate::agent::AgentError;
use crate::agent::access::Access;
use crate::agent::shared::Shared;

/// Streams live long, and each is a connection.
const MAX_CONNECTIONS: usize = 512;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEADERS: usize = 64 << 10;
/// After a failure of accept(2), as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// All servers of an agent.
#[derive(Debug)]
pub(in crate::agent) struct Servers {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    address: Option<SocketAddr>,
    /// Removed with this, if it is still ours.
    _socket: Option<SocketFile>,
}

impl Servers {
    /// Opens all that the configuration asks for.
    pub(in crate::agent) async fn start(shared: &Shared) -> Result<Self, AgentError> {
        let written = shared.configuration();
        let router = Arc::new(Router::new(shared.clone(), Access::new(shared.options())?));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut address = None;
        if written.enable_server {
            let options = shared.options().clone();
            let tls = spawn_blocking(move || {
                let files = certificate::files(&options)?;
                let written = &options.configuration;
                let client_ca = &written.authentication.x509.client_ca_file;
                Tls::load(files, client_ca, &written.tls_min_version)
            });
            let tls = tls
                .await
                .map_err(|error| AgentError::Certificate(error.to_string()))??;
            let (listener, at) = listen(written.address, written.port).await?;
            tracing::info!(address = %at, "serving the kubelet's API over HTTPS");
            address = Some(at);
            let serving = Serving {
                router: Arc::clone(&router),
                door: Door::Guarded,
                tls: Some(Arc::new(tls)),
            };
            tasks.spawn(serving.tcp(listener, stop.clone()));
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
                let (listener, at) = listen(ip, port).await?;
                tracing::info!(address = %at, ?door, "serving HTTP");
                let serving = Serving {
                    router: Arc::clone(&router),
                    door,
                    tls: None,
                };
                tasks.spawn(serving.tcp(listener, stop.clone()));
            }
        }
        let mut socket = None;
        if let Some(path) = shared.options().control_socket.clone() {
            let (listener, file) = listen_unix(&path).map_err(|source| AgentError::Listen {
                address: path.display().to_string(),
                source,
            })?;
            socket = Some(file);
            let serving = Serving {
                router,
                door: Door::Root,
                tls: None,
            };
            tasks.spawn(serving.unix(listener, stop.clone()));
        }
        Ok(Self {
            tasks,
            stop,
            address,
            _socket: socket,
        })
    }

    /// Where HTTPS is served.
    pub(in crate::agent) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Closes all of them.
    pub(in crate::agent) async fn stop(mut self) {
        self.stop.cancel();
        self.tasks.shutdown().await;
    }
}

async fn listen(ip: IpAddr, port: u16) -> Result<(TcpListener, SocketAddr), AgentError> {
    let address = SocketAddr::new(ip, port);
    let failed = |source| AgentError::Listen {
        address: address.to_string(),
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// A socket that only root may connect to. One that nobody answers on is taken over.
fn listen_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let (listener, file) = orlop_disk::listen_at(path, 0o600, None)?;
    Ok((UnixListener::from_std(listener)?, file))
}

/// One listener.
struct Serving {
    router: Arc<Router>,
    door: Door,
    tls: Option<Arc<Tls>>,
}

impl Serving {
    async fn tcp(self, listener: TcpListener, stop: CancellationToken) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&room);
            let accepted = async {
                let place = place.acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let _ = stream.set_nodelay(true);
                        let (router, door, tls) =
                            (Arc::clone(&self.router), self.door, self.tls.clone());
                        connections.spawn(async move {
                            match tls {
                                Some(tls) => secure(stream, &tls, router, door).await,
                                None => serve(stream, router, door, false).await,
                            }
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a client");
                        sleep(PAUSE).await;
                    }
                }
            }
        }
        connections.shutdown().await;
    }

    async fn unix(self, listener: UnixListener, stop: CancellationToken) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&room);
            let accepted = async {
                let place = place.acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let (router, door) = (Arc::clone(&self.router), self.door);
                        connections.spawn(async move {
                            serve(stream, router, door, true).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a client");
                        sleep(PAUSE).await;
                    }
                }
            }
        }
        connections.shutdown().await;
    }
}

async fn secure(stream: TcpStream, tls: &Arc<Tls>, router: Arc<Router>, door: Door) {
    let reading = Arc::clone(tls);
    let Ok(config) = spawn_blocking(move || reading.current()).await else {
        return;
    };
    let handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream);
    match timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => {
            // The verifier has looked at it: one that is there is good.
            let certificate = stream
                .get_ref()
                .1
                .peer_certificates()
                .is_some_and(|certificates| !certificates.is_empty());
            serve(stream, router, door, certificate).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a client failed its handshake"),
        Err(_) => tracing::debug!("a client was too slow with its handshake"),
    }
}

async fn serve<S>(stream: S, router: Arc<Router>, door: Door, trusted: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let router = Arc::clone(&router);
        async move { Ok::<_, Infallible>(router.answer(request, door, trusted).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a client's connection broke");
    }
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
        let (first, its_file) = listen_unix(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        let _second = listen_unix(&path).unwrap();
        drop(its_file);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
    }
}
