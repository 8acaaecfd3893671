//! Settings of the streaming server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use orlop_listen::{TlsFiles, TlsTerms};

use crate::flow::Limits;

/// Settings of the streaming server. The defaults are those of other runtimes.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. The default is the loopback interface, on a port the kernel chooses.
    pub address: SocketAddr,
    /// The host (and port, if it differs) to be put into URLs, where `address` is not what
    /// clients can reach.
    pub advertise: Option<String>,
    /// Serve with TLS.
    pub tls: Option<TlsFiles>,
    /// How TLS is spoken.
    pub terms: TlsTerms,
    /// Connections without any traffic are closed after this time.
    pub idle_timeout: Duration,
    /// A client must have opened all its streams within this time.
    pub creation_timeout: Duration,
    /// An URL that was not used by then is void.
    pub token_life: Duration,
    /// URLs that may be waiting to be used.
    pub max_pending: usize,
    /// Sessions served at once.
    pub max_sessions: usize,
    /// A connection must have become a session within this time, TLS and all.
    pub negotiation_timeout: Duration,
    /// Connections that are no sessions yet.
    pub max_idle: usize,
    /// Those of them that come from one address, or from one /64 of IPv6.
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

/// Exec and attach have five streams at most; a client may try a few more.
const SESSION_STREAMS: usize = 16;
/// Two for every forwarded connection.
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
