//! What listens.

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

/// Connections served at once. Further ones wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 32;

/// A client that reads nothing for so long is left.
const STALL: Duration = Duration::from_secs(20);

const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(15),
    bytes: 16 << 10,
};

/// How often usage is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long it is when nobody looks any more.
const GRACE: Duration = Duration::from_secs(30);

/// What a server is to show, and to whom.
pub struct WebOptions {
    /// The endpoint of the node.
    pub endpoint: Endpoint,
    /// What the first address must have.
    pub token: Token,
    /// Names that a request may be for, beside the address and `localhost`.
    pub names: Vec<String>,
    /// Whether environment variables are shown to who asks for them.
    pub shows_environment: bool,
    /// What the process knows beside the endpoint.
    pub extras: Option<Arc<dyn Extras>>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Others could read along.
    #[error(
        "{0} is reachable from other machines, which requires TLS; configure a certificate (a PEM \
         file and its key), or listen on a loopback address and connect through `ssh -L`"
    )]
    Open(String),
}

/// A server that is about to serve.
pub struct Web {
    listener: Arc<Listener>,
    tls: Option<Arc<Tls>>,
    node: Arc<Node>,
}

impl Web {
    /// Gets ready to serve. Needs a reactor. Who keeps the socket may have it served by another one later;
    /// who calls meanwhile waits.
    pub fn new(
        listener: impl Into<Arc<Listener>>,
        tls: Option<Arc<Tls>>,
        options: WebOptions,
    ) -> Result<Self, WebError> {
        let listener = listener.into();
        if tls.is_none() && !listener.is_local() {
            return Err(WebError::Open(listener.address()));
        }
        // There is none on a unix socket.
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

    /// The address that a browser begins with, the token in it if that is not in a file; of a unix socket, its
    /// path, and what to ask for there.
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

    /// Serves until told to stop.
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
        // The socket may outlast its server.
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
        // Nothing is asked with a body.
        let (head, _) = request.into_parts();
        async move { secured(routes::answer(&node, &head).await) }
    };
    let stream = Stall::new(stream, STALL);
    if let Err(error) = serve_http1(stream, HEAD, activity, answer).await {
        tracing::debug!(%error, "a browser connection failed");
    }
}
