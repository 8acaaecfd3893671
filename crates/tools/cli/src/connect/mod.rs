//! Connection to the runtime and to its streaming servers: configuration, TLS, and hints after failures.

pub(crate) mod advice;
mod flags;
mod session;
pub(crate) mod settings;
mod tls;
mod transport;

pub use flags::ClientFlags;
pub use session::Dialect;
pub(crate) use session::{Session, refused};
pub(crate) use transport::{TransportFlags, whole_url};
