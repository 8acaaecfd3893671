//! Settings of the streaming server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use orlop_listen::{TlsFiles, TlsTerms};

use crate::flow::Limits;

/// Settings of the streaming server. The defaults are those of other runtimes.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listening address. The default is the loopback interface, on a port that the kernel selects.
    pub address: SocketAddr,
    /// The host (and optional port) for URLs, if clients cannot reach `address`.
    pub advertise: Option<String>,
    /// The certificate and key for TLS; `None` serves plain HTTP.
    pub tls: Option<TlsFiles>,
    /// TLS versions and cipher suites.
    pub terms: TlsTerms,
    /// Connections without traffic are closed after this time.
    pub idle_timeout: Duration,
    /// Time limit for a client to open all its streams.
    pub creation_timeout: Duration,
    /// An unused URL expires after this time.
    pub token_life: Duration,
    /// Maximum number of unused URLs.
    pub max_pending: usize,
    /// Maximum number of parallel sessions.
    pub max_sessions: usize,
    /// Time limit for a connection to become a session, including TLS.
    pub negotiation_timeout: Duration,
    /// Maximum number of connections that are not sessions yet.
    pub max_idle: usize,
    /// The same limit for one address, or for one /64 of IPv6.
    pub max_idle_per_peer: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertise: None,
            tls: None,
            terms: TlsTerms::default(),
            idle_timeout: Duration::from_hours(4),
            creation_timeout: Duration::from_secs(30),
            token_life: Duration::from_mins(1),
            max_pending: 1000,
            max_sessions: 4096,
            negotiation_timeout: Duration::from_secs(30),
            max_idle: 2048,
            max_idle_per_peer: 512,
        }
    }
}

/// Stream limit of exec and attach, which use at most five; a client may open a few more.
const SESSION_STREAMS: usize = 16;
/// Stream limit of port-forward, which uses two per connection.
const PORT_FORWARD_STREAMS: usize = 1024;
const STREAM_BYTES: usize = 1024 * 1024;
const CONNECTION_BYTES: usize = 4 * 1024 * 1024;

impl Config {
    pub(crate) fn session_limits(&self) -> Limits {
        Limits {
            streams: SESSION_STREAMS,
            stream_bytes: STREAM_BYTES,
            connection_bytes: CONNECTION_BYTES,
            idle: self.idle_timeout,
        }
    }

    pub(crate) fn port_forward_limits(&self) -> Limits {
        Limits {
            streams: PORT_FORWARD_STREAMS,
            ..self.session_limits()
        }
    }
}
