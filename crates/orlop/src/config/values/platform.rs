//! The platform of an image.

use std::fmt;
use std::str::FromStr;

use super::text::text_value;

/// An operating system, a processor architecture and, if need be, a variant of it:
/// `linux/arm64`, `linux/arm/v7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Platform(String);

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_word = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let parts: Vec<&str> = text.split('/').collect();
        if (2..=3).contains(&parts.len()) && parts.into_iter().all(is_word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} is not a platform such as linux/arm64 or linux/arm/v7"
            ))
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_value!(Platform, "platform");
