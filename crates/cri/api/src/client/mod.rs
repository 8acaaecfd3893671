//! The client side of the CRI: one typed method per call, with the kubelet's deadlines, validation of responses,
//! reconnects and fallbacks. Works with any CRI endpoint.

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
