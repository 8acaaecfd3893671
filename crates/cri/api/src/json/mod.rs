//! JSON form of messages, in protobuf's JSON mapping as CRI tools print it: names in camelCase, 64-bit numbers as
//! text, enum values by name. Unset fields are printed too, except messages.
//!
//! The conversion uses descriptors and costs nothing until the first use. Generated (de)serializers of 170 messages
//! would double the crate's compile time, only for interactive tools.

mod descriptors;
mod read;
mod schema;
mod write;

pub use read::{JsonError, read};
pub use schema::{JsonSchema, schema};
pub use write::{JsonView, to_value, view};
