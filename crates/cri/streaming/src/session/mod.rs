//! Requests and sessions of the streaming server, and the backend interface.

mod backend;
mod process;
mod resize;

pub use backend::{
    AttachRequest, Backend, BackendError, BoxFuture, Duplex, ExecRequest, ExitOutcome,
    PortForwardRequest, Session,
};
pub use process::{Pipes, ServeError};
pub use resize::{Resizes, TerminalSize};
