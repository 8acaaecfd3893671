//! Messages as JSON, in protobuf's JSON mapping as CRI tools print it: names in camelCase, 64-bit
//! numbers as text, enum values by name, fields without a value printed too (save for messages).
//!
//! It works on descriptors and costs nothing until the first use: generated (de)serializers for
//! 170 messages would double the crate's compile time for what is only needed at a prompt.

mod descriptors;
mod read;
mod schema;
mod write;

pub use read::{JsonError, read};
pub use schema::{JsonSchema, schema};
pub use write::{JsonView, to_value, view};
