//! The streaming client: opens the URLs that a streaming server returns.

mod dial;
mod error;
mod port_forward;
mod session;
mod streams;

pub use dial::{ClientOptions, Protocol};
pub(crate) use dial::{Dialed, dial};
pub use error::ClientError;
pub use port_forward::{Forward, ForwardEvent, port_forward};
pub use session::{ClientStreams, attach, exec};
pub(crate) use streams::{Opened, Wanted, open};
