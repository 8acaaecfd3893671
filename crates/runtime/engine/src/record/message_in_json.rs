//! CRI messages inside JSON records: protobuf bytes in base64, so that every field survives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// Writes the message; for `#[serde(with = "message_in_json")]`.
pub fn serialize<M: Message, S: Serializer>(message: &M, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(message.encode_to_vec()))
}

/// Reads the message; for `#[serde(with = "message_in_json")]`.
pub fn deserialize<'de, M, D>(from: D) -> Result<M, D::Error>
where
    M: Message + Default,
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
    M::decode(bytes.as_slice()).map_err(D::Error::custom)
}
