//! Plain strings, booleans and addresses.

use std::net::IpAddr;

use orlop_text::flag::FlagForm;
use toml::Spanned;
use toml::de::DeValue;

use super::value::{Value, bad, mismatch};
use crate::config::section::BadValue;

impl Value for bool {
    fn kind() -> String {
        "boolean".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        value
            .get_ref()
            .as_bool()
            .ok_or_else(|| mismatch::<Self>(value))
    }

    fn to_toml(&self) -> String {
        self.to_string()
    }

    const FORM: FlagForm = FlagForm::Switch;

    fn from_flag(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("{text:?} is neither true nor false"))
    }
}

impl Value for String {
    fn kind() -> String {
        "string".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        value
            .get_ref()
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| mismatch::<Self>(value))
    }

    fn to_toml(&self) -> String {
        quoted(self)
    }
}

impl Value for IpAddr {
    fn kind() -> String {
        "IP address".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        let text = value
            .get_ref()
            .as_str()
            .ok_or_else(|| mismatch::<Self>(value))?;
        text.parse()
            .map_err(|_| bad(value, format!("{text:?} is not an IP address")))
    }

    fn to_toml(&self) -> String {
        quoted(&self.to_string())
    }
}

/// Formats text as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
