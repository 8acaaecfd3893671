//! Exec, attach and port-forward for Kubernetes, over SPDY/3.1 and WebSocket: the server whose URLs a container
//! runtime returns, and the client that opens them.
//!
//! The crate does not depend on CRI or containers: a [`Backend`] runs the requests of clients.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod body;
pub mod client;
mod copying;
mod flow;
#[doc(hidden)]
pub mod fuzzing;
mod protocol;
pub mod server;
mod session;
mod spdy;
mod status;
pub mod terminal;
pub mod translate;
mod tunnel;
mod ws;

pub use body::read_body;
pub use copying::Output;
pub use flow::Input;
pub use orlop_listen::{CipherSuite, TlsFiles, TlsTerms, TlsVersion};
pub use server::{Change, Config, Server, ServerError, TooManyPending};
pub use session::{
    AttachRequest, Backend, BackendError, BoxFuture, Duplex, ExecRequest, ExitOutcome, Pipes,
    PortForwardRequest, Resizes, ServeError, Session, TerminalSize,
};
pub use spdy::FrameError;
pub use ws::WsError;
