//! An optional limit.

use toml::Spanned;
use toml::de::DeValue;

use super::value::{Value, bad};
use crate::config::section::BadValue;

/// A limit, or none: `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// No limit.
    Unlimited,
    /// At most this many.
    At(std::num::NonZeroU32),
}

impl Value for Limit {
    fn kind() -> String {
        "whole number or \"unlimited\"".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        match value.get_ref() {
            DeValue::String(text) if text == "unlimited" => Ok(Self::Unlimited),
            DeValue::String(text) => Err(bad(
                value,
                format!("{text:?} is neither a whole number nor \"unlimited\""),
            )),
            _ => std::num::NonZeroU32::from_toml(value).map(Self::At),
        }
    }

    fn to_toml(&self) -> String {
        match self {
            Self::Unlimited => "\"unlimited\"".to_owned(),
            Self::At(bound) => bound.to_string(),
        }
    }
}
