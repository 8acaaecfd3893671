//! Logs a panic as one line, with the request in which it happened.

use std::panic;

/// Installs the panic hook that logs panics.
pub(crate) fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("no message");
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(
            panic = message,
            location,
            "a request handler panicked; this is a bug in orlop"
        );
    }));
}
