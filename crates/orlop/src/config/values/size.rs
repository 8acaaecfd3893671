//! Byte sizes, written as `16MiB`, `512KiB` or a number of bytes.

use std::fmt;
use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;

use super::scalar::quoted;
use super::value::{Value, bad};
use crate::config::section::BadValue;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSize(u64);

impl ByteSize {
    pub(crate) const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    pub(crate) const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, shift) = UNITS
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
            .unwrap_or((text, 0));
        number
            .parse::<u32>()
            .map(|number| Self(u64::from(number) << shift))
            .map_err(|_| format!("{text:?} is not a size such as 16MiB, 512KiB or 4096"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS
            .iter()
            .find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift);
        match unit {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Value for ByteSize {
    fn kind() -> String {
        "size".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        match value.get_ref() {
            DeValue::String(text) => text.parse().map_err(|error: String| bad(value, error)),
            _ => u32::from_toml(value).map(|bytes| Self(bytes.into())),
        }
    }

    fn to_toml(&self) -> String {
        if UNITS
            .iter()
            .any(|(unit, _)| self.to_string().ends_with(unit))
        {
            quoted(&self.to_string())
        } else {
            self.to_string()
        }
    }
}
