//! Listening sockets and their connections.
//!
//! | module | content |
//! |---|---|
//! | `socket` | a unix socket in the file system: create it, take it over from a dead process, remove it |
//! | `listener` | listeners and connections, for unix and TCP |
//! | `accept` | the accept loop with connection limits; it survives a lack of descriptors |
//! | `connections` | the open connections of a listener: limits, and the choice of one to close for the next |
//! | `activity` | the requests of one connection |
//! | `host` | the host that a request names (feature `http1`) |
//! | `http1` | HTTP/1.1 on a connection, with bounded request heads (feature `http1`) |
//! | `any_certificate` | TLS of a client that accepts any server certificate (feature `tls`) |
//! | `tls` | TLS with files that may be renewed at any time (feature `tls`) |
//! | `tls_terms` | TLS versions and cipher suites (feature `tls`) |

mod accept;
mod activity;
#[cfg(feature = "tls")]
mod any_certificate;
mod connections;
#[cfg(feature = "http1")]
mod host;
#[cfg(feature = "http1")]
mod http1;
mod listener;
mod socket;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_terms;

pub use accept::{Accept, AcceptLoop, enter};
pub use activity::{Activity, InProgress, READ_TIMEOUT};
#[cfg(feature = "tls")]
pub use any_certificate::AnyCertificate;
pub use connections::{ConnectionLimits, Connections, Origin, Slot};
#[cfg(feature = "http1")]
pub use host::{Host, MalformedHost, is_for_this_node};
#[cfg(feature = "http1")]
pub use http1::{HeadLimits, serve_http1};
pub use listener::{Connection, Listener};
pub use socket::{SocketFile, listen_at};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError, TlsFiles, TlsRules};
#[cfg(feature = "tls")]
pub use tls_terms::{CipherSuite, TlsTerms, TlsVersion};
