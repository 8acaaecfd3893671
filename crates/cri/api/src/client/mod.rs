//! The client side: one typed method per call, with the kubelet's rules of deadlines, checks of
//! answers, reconnects and fallbacks. Works on any CRI endpoint.

mod call;
mod connection;
mod error;
mod image;
mod observer;
mod options;
mod quiet;
mod runtime;
mod transport;
mod validate;

pub use connection::Connection;
pub use error::ClientError;
pub use image::{ImageClient, PullRequest};
pub use observer::{Observer, Outcome};
pub use options::ClientOptions;
pub use quiet::Quiet;
pub use runtime::{Events, RuntimeClient};
pub use transport::ConnectError;
