//! Listening, and the life of every connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::error::ServerError;
use super::http;
use super::tls::Tls;
use super::tokens::{Pending, Tokens, TooManyPending};
use super::visitors::{Visitor, Visitors};
use crate::session::{AttachRequest, Backend, ExecRequest, PortForwardRequest};

/// Sessions get this long to end when the server shuts down.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pause after an accept that failed, for lack of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A silent peer is asked for a sign of life after this time.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A streaming server. Dropping it ends all its connections at once.
pub struct Server {
    address: SocketAddr,
    base: String,
    tokens: Arc<Tokens>,
    stop: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

/// What all connections share.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) stop: CancellationToken,
    /// Room for sessions.
    pub(crate) sessions: Arc<Semaphore>,
}

impl Server {
    /// Listens and serves in the background.
    pub async fn bind(config: Config, backend: Arc<dyn Backend>) -> Result<Self, ServerError> {
        let tls = match config.tls.clone() {
            None => None,
            Some(files) => Some(Arc::new(Tls::load(files)?)),
        };
        let bind_error = |source| ServerError::Bind {
            address: config.address,
            source,
        };
        let listener = TcpListener::bind(config.address)
            .await
            .map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let base = base_url(&config, address);
        let tokens = Arc::new(Tokens::new(config.token_life, config.max_pending));
        let stop = CancellationToken::new();
        let context = Arc::new(Context {
            tokens: tokens.clone(),
            sessions: Arc::new(Semaphore::new(config.max_sessions)),
            config,
            backend,
            stop: stop.clone(),
        });
        let accepting = Some(tokio::spawn(accept(listener, tls, context)));
        Ok(Self {
            address,
            base,
            tokens,
            stop,
            accepting,
        })
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// An URL under which the command can be run, once and soon.
    pub fn exec_url(&self, request: ExecRequest) -> Result<String, TooManyPending> {
        self.url("exec", Pending::Exec(request))
    }

    /// An URL under which the container can be attached to, once and soon.
    pub fn attach_url(&self, request: AttachRequest) -> Result<String, TooManyPending> {
        self.url("attach", Pending::Attach(request))
    }

    /// An URL under which the pod's ports can be reached, with one connection that begins soon.
    pub fn port_forward_url(&self, request: PortForwardRequest) -> Result<String, TooManyPending> {
        self.url("portforward", Pending::PortForward(request))
    }

    fn url(&self, verb: &str, request: Pending) -> Result<String, TooManyPending> {
        Ok(format!(
            "{}/{verb}/{}",
            self.base,
            self.tokens.insert(request)?
        ))
    }

    /// Stops listening, tells all sessions that they end, and waits a moment for them.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(accepting) = self.accepting.take() {
            // A panic in there was reported where it happened.
            let _ = accepting.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
    }
}

fn base_url(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    match &config.advertise {
        None => format!("{scheme}://{address}"),
        Some(host) if has_port(host) => format!("{scheme}://{host}"),
        Some(host) if host.contains(':') && !host.starts_with('[') => {
            format!("{scheme}://[{host}]:{}", address.port())
        }
        Some(host) => format!("{scheme}://{host}:{}", address.port()),
    }
}

fn has_port(host: &str) -> bool {
    match host.rsplit_once(':') {
        Some((name, port)) => {
            (!name.contains(':') || name.ends_with(']')) && port.parse::<u16>().is_ok()
        }
        None => false,
    }
}

async fn accept(listener: TcpListener, tls: Option<Arc<Tls>>, context: Arc<Context>) {
    let config = &context.config;
    let visitors = Visitors::new(config.max_visitors, config.max_visitors_per_peer);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = context.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
            () = context.tokens.some_expire() => continue,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(visitor) = visitors.enter(peer.ip()) else {
                    tracing::debug!(%peer, "too many streaming clients that have asked for nothing");
                    continue;
                };
                let (tls, context) = (tls.clone(), context.clone());
                connections.spawn(async move {
                    tracing::trace!(%peer, "a streaming client connected");
                    connection(stream, visitor, tls, context).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a streaming client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    // Those that do not end are aborted as the set is dropped.
    if tokio::time::timeout(FAREWELL, all).await.is_err() {
        connections.shutdown().await;
    }
}

async fn connection(
    stream: TcpStream,
    visitor: Visitor,
    tls: Option<Arc<Tls>>,
    context: Arc<Context>,
) {
    let end = Instant::now() + context.config.negotiation_timeout;
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
    let _ = rustix::net::sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
    let Some(tls) = tls else {
        return http::serve_plain(stream, (visitor, end), &context).await;
    };
    let Ok(config) = tokio::task::spawn_blocking(move || tls.current()).await else {
        return;
    };
    let handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream);
    tokio::select! {
        () = context.stop.cancelled() => {}
        result = tokio::time::timeout_at(end, handshake) => match result {
            Ok(Ok(stream)) => http::serve_tls(stream, (visitor, end), &context).await,
            Ok(Err(error)) => tracing::debug!(%error, "a streaming client failed its handshake"),
            Err(_) => tracing::debug!("a streaming client was too slow with its handshake"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_what_clients_can_reach() {
        let address: SocketAddr = "0.0.0.0:1234".parse().expect("an address");
        let url = |advertise: Option<&str>| {
            let advertise = advertise.map(str::to_owned);
            base_url(
                &Config {
                    advertise,
                    ..Config::default()
                },
                address,
            )
        };
        assert_eq!(url(None), "http://0.0.0.0:1234");
        assert_eq!(url(Some("node1")), "http://node1:1234");
        assert_eq!(url(Some("node1:80")), "http://node1:80");
        assert_eq!(url(Some("fd00::1")), "http://[fd00::1]:1234");
        assert_eq!(url(Some("[fd00::1]")), "http://[fd00::1]:1234");
        assert_eq!(url(Some("[fd00::1]:80")), "http://[fd00::1]:80");
    }
}
