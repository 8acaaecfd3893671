//! Bytes in hexadecimal digits, lower-case ones: upper case would make a second name of the same.

mod digits;

pub use digits::{decode, encode, is_hex};
