//! Where the commands go: the runtime that is asked and what says so, the streaming servers that it
//! names, and what to do when it doesn't answer.

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
