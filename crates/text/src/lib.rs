//! Text in and out: hexadecimal digits, errors with their causes, and command-line flags.

pub mod flag;
pub mod hex;

mod causes;

pub use causes::with_causes;
