//! The listener and the life cycle of connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use orlop_listen::{AcceptLoop, Activity, ConnectionLimits, Tls, TlsFiles, TlsRules, TlsTerms};
use parking_lot::RwLock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::context::{Context, Now};
use super::error::ServerError;
use super::http;
use super::tokens::{Pending, Tokens, TooManyPending};
use crate::session::{AttachRequest, Backend, ExecRequest, PortForwardRequest};

/// How long sessions may take to end when the server shuts down.
const FAREWELL: Duration = Duration::from_secs(5);

/// A streaming server. Dropping it closes all its connections immediately.
pub struct Server {
    address: SocketAddr,
    context: Arc<Context>,
    stop: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

/// Validated settings for new connections.
pub struct Change(Now);

/// Loads the TLS files of a configuration.
fn load(config: &Config) -> Result<Option<Arc<Tls>>, ServerError> {
    let files = config.tls.clone();
    let rules = TlsRules {
        whom: "a streaming client",
        certificate_is_optional: false,
        terms: config.terms.clone(),
    };
    Ok(files
        .map(|files| Tls::load(files, rules))
        .transpose()?
        .map(Arc::new))
}

impl Server {
    /// Binds the listener and serves in the background.
    pub async fn bind(config: Config, backend: Arc<dyn Backend>) -> Result<Self, ServerError> {
        let tls = load(&config)?;
        let bind_error = |source| ServerError::Bind {
            address: config.address,
            source,
        };
        let listener = TcpListener::bind(config.address)
            .await
            .map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let tokens = Arc::new(Tokens::new(config.token_life, config.max_pending));
        let stop = CancellationToken::new();
        let context = Arc::new(Context {
            tokens,
            sessions: Arc::new(Semaphore::new(config.max_sessions)),
            now: RwLock::new(Now {
                config: Arc::new(config),
                tls,
            }),
            backend,
            stop: stop.clone(),
        });
        let accepting = Some(tokio::spawn(accept(listener, Arc::clone(&context))));
        Ok(Self {
            address,
            context,
            stop,
            accepting,
        })
    }

    /// Loads new certificates and timeouts without applying them.
    pub fn prepare(
        &self,
        tls: Option<TlsFiles>,
        terms: TlsTerms,
        idle_timeout: Duration,
    ) -> Result<Change, ServerError> {
        let old = self.context.config();
        let config = Config {
            tls,
            terms,
            idle_timeout,
            ..Config::clone(&old)
        };
        let tls = load(&config)?;
        let config = Arc::new(config);
        Ok(Change(Now { config, tls }))
    }

    /// Applies prepared settings to new connections. Open sessions keep their settings.
    pub fn change(&self, to: Change) {
        let Change(now) = to;
        *self.context.now.write() = now;
    }

    /// Returns the listening address.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns a short-lived, single-use URL for the command.
    pub fn exec_url(&self, request: ExecRequest) -> Result<String, TooManyPending> {
        self.url("exec", Pending::Exec(request))
    }

    /// Returns a short-lived, single-use URL to attach to the container.
    pub fn attach_url(&self, request: AttachRequest) -> Result<String, TooManyPending> {
        self.url("attach", Pending::Attach(request))
    }

    /// Returns a short-lived, single-use URL to forward the pod's ports.
    pub fn port_forward_url(&self, request: PortForwardRequest) -> Result<String, TooManyPending> {
        self.url("portforward", Pending::PortForward(request))
    }

    fn url(&self, verb: &str, request: Pending) -> Result<String, TooManyPending> {
        let token = self.context.tokens.insert(request)?;
        let base = base_url(&self.context.config(), self.address);
        Ok(format!("{base}/{verb}/{token}"))
    }

    /// Stops listening, asks all sessions to end, and waits shortly for them.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(accepting) = self.accepting.take() {
            // A panic of the task has already been reported.
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

async fn accept(listener: TcpListener, context: Arc<Context>) {
    let config = context.config();
    let accepting = AcceptLoop {
        doing: "accepting a streaming client",
        limits: ConnectionLimits {
            all: config.max_sessions.saturating_add(config.max_idle),
            idle: config.max_idle,
            idle_per_peer: config.max_idle_per_peer,
        },
        first_request: config.negotiation_timeout,
        farewell: FAREWELL,
    };
    let each = |(stream, peer): (TcpStream, SocketAddr), activity| {
        let (tls, context) = (context.now.read().tls.clone(), context.clone());
        async move {
            tracing::trace!(%peer, "a streaming client connected");
            connection(stream, activity, tls, context).await;
        }
    };
    let expiring = async {
        loop {
            context.tokens.some_expire().await;
        }
    };
    tokio::select! {
        () = accepting.run(listener, context.stop.clone(), each) => {}
        () = expiring => {}
    }
}

async fn connection(
    stream: TcpStream,
    activity: Activity,
    tls: Option<Arc<Tls>>,
    context: Arc<Context>,
) {
    let end = Instant::now() + context.config().negotiation_timeout;
    let Some(tls) = tls else {
        return http::serve_plain(stream, (activity, end), &context).await;
    };
    let accepted = tokio::select! {
        () = context.stop.cancelled() => None,
        accepted = tls.accept(stream) => accepted,
    };
    if let Some(stream) = accepted {
        http::serve_tls(stream, (activity, end), &context).await;
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
