//! Messages on standard error.

/// Writes a line to standard error. If that is closed, the message is lost and the work continues; `eprintln!` would
/// panic.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($words)*);
    }};
}
