//! Whole numbers, each within the range of its type.

use std::num::NonZeroU32;

use toml::Spanned;
use toml::de::DeValue;

use super::value::{Value, bad, mismatch};
use crate::config::section::BadValue;

macro_rules! whole_number {
    ($($type:ty => $low:expr, $high:expr;)*) => {$(
        impl Value for $type {
            fn kind() -> String {
                "whole number".to_owned()
            }

            fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
                let number = integer::<Self>(value)?;
                <$type>::try_from(number).map_err(|_| {
                    bad(value, format!(
                        "{number} is out of range; it must be between {} and {}", $low, $high))
                })
            }

            fn to_toml(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_number! {
    u16 => u16::MIN, u16::MAX;
    u32 => u32::MIN, u32::MAX;
}

impl Value for NonZeroU32 {
    fn kind() -> String {
        "whole number".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        let number = integer::<Self>(value)?;
        u32::try_from(number)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| {
                bad(
                    value,
                    format!(
                        "{number} is out of range; it must be between 1 and {}",
                        u32::MAX
                    ),
                )
            })
    }

    fn to_toml(&self) -> String {
        self.to_string()
    }
}

fn integer<T: Value>(value: &Spanned<DeValue<'_>>) -> Result<i64, BadValue> {
    let number = value
        .get_ref()
        .as_integer()
        .ok_or_else(|| mismatch::<T>(value))?;
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
        bad(
            value,
            format!(
                "{} is out of range; it must fit into 64 bits",
                number.as_str()
            ),
        )
    })
}
