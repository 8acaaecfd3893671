//! What a streaming server serves, and for whom: requests, sessions and the backend behind them.

mod backend;
mod process;
mod resize;

pub use backend::{
    AttachRequest, Backend, BackendError, BoxFuture, Duplex, ExecRequest, ExitOutcome,
    PortForwardRequest, Session,
};
pub use process::{Pipes, ServeError};
pub use resize::{Resizes, TerminalSize};
