//! Words for whoever watches.

/// Writes a line to the standard error. Where nobody reads that any more the words are lost and
/// the work goes on; `eprintln!` would end it with a panic.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($words)*);
    }};
}
