//! The web server.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use orlop_cri_api::Endpoint;
use orlop_listen::{AcceptLoop, Activity, Connection, HeadLimits, Listener, Tls, serve_http1};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Token};
use crate::answer::secured;
use crate::extras::Extras;
use crate::live::Hub;
use crate::node::{MOST_LOGS, Node};
use crate::stall::Stall;
use crate::{asked, routes};

/// Maximum number of connections. Further ones wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 32;

/// Timeout for a client that reads nothing.
const STALL: Duration = Duration::from_secs(20);

const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(15),
    bytes: 16 << 10,
};

/// Interval between samples of the usage.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long sampling continues after the last page is closed.
const GRACE: Duration = Duration::from_secs(30);

/// Options of a web server.
pub struct WebOptions {
    /// CRI endpoint of the node.
    pub endpoint: Endpoint,
    /// The token in the URL that opens the first page.
    pub token: Token,
    /// Allowed host names besides the address and `localhost`.
    pub names: Vec<String>,
    /// Whether to show environment variables on request.
    pub shows_environment: bool,
    /// Data that the endpoint does not provide.
    pub extras: Option<Arc<dyn Extras>>,
}

/// Reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The connection could be intercepted.
    #[error(
        "{0} is reachable from other machines, which requires TLS; configure a certificate (a PEM \
         file and its key), or listen on a loopback address and connect through `ssh -L`"
    )]
    Open(String),
}

/// A web server that is ready to serve.
pub struct Web {
    listener: Arc<Listener>,
    tls: Option<Arc<Tls>>,
    node: Arc<Node>,
}

impl Web {
    /// Prepares a server. Needs a reactor. The caller can pass the socket to another server later; clients wait
    /// meanwhile.
    pub fn new(
        listener: impl Into<Arc<Listener>>,
        tls: Option<Arc<Tls>>,
        options: WebOptions,
    ) -> Result<Self, WebError> {
        let listener = listener.into();
        if tls.is_none() && !listener.is_local() {
            return Err(WebError::Open(listener.address()));
        }
        // Unix sockets use no TLS.
        let is_tls = tls.is_some() && !listener.is_unix();
        let access = Access::new(options.token, options.names, &listener, is_tls);
        let cri = asked::connect(options.endpoint);
        let manifests = options.extras.as_ref();
        let manifests = manifests.is_some_and(|extras| extras.has_manifests());
        let hub = Hub::new(
            cri.clone(),
            (INTERVAL, GRACE),
            manifests,
            options.shows_environment,
        );
        let node = Node {
            access,
            hub,
            cri,
            shows_environment: options.shows_environment,
            extras: options.extras,
            logs: Arc::new(Semaphore::new(MOST_LOGS)),
        };
        Ok(Self {
            listener,
            tls,
            node: Arc::new(node),
        })
    }

    /// Returns the URL to open, with the token unless it is in a file; for a unix socket, its path and the URL to
    /// request.
    pub fn address(&self) -> String {
        let Some(address) = self.listener.tcp_address() else {
            let first = self.node.access.first_address("http://localhost/");
            return format!("{} {first}", self.listener.address());
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.node
            .access
            .first_address(&format!("{scheme}://{address}/"))
    }

    /// Serves until it is stopped.
    pub async fn serve(self, stop: CancellationToken) {
        let Self {
            listener,
            tls,
            node,
        } = self;
        let accepting = AcceptLoop::new("cannot accept a browser connection", MOST_CONNECTIONS);
        let hub = Arc::clone(&node.hub);
        let each =
            |connection, activity| meet(connection, activity, tls.clone(), Arc::clone(&node));
        // The socket may outlive its server.
        accepting.run(listener, stop, each).await;
        hub.close();
    }
}

async fn meet(connection: Connection, activity: Activity, tls: Option<Arc<Tls>>, node: Arc<Node>) {
    let tls = tls.filter(|_| !matches!(connection, Connection::Unix(_)));
    let Some(tls) = tls else {
        return talk(connection, activity, node).await;
    };
    if let Some(stream) = tls.accept(connection).await {
        talk(stream, activity, node).await;
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    activity: Activity,
    node: Arc<Node>,
) {
    let answer = |request: Request<Incoming>| {
        let node = Arc::clone(&node);
        // No request has a body.
        let (head, _) = request.into_parts();
        async move { secured(routes::answer(&node, &head).await) }
    };
    let stream = Stall::new(stream, STALL);
    if let Err(error) = serve_http1(stream, HEAD, activity, answer).await {
        tracing::debug!(%error, "a browser connection failed");
    }
}
