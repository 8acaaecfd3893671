//! Parsing and formatting: durations, quantities, hexadecimal digits, errors with their causes, and command-line flags.

pub mod duration;
pub mod flag;
pub mod hex;
pub mod quantity;

mod causes;

pub use causes::with_causes;
