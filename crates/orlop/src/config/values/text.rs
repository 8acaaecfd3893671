//! Values written as a string: any type that parses from and prints to text.

/// Implements the traits of a configuration value for a type that is converted from and to text, either by
/// [`FromStr`](std::str::FromStr) and [`Display`](std::fmt::Display) or by two functions.
macro_rules! text_value {
    ($type:ty, $kind:literal) => {
        text_value!($type, $kind, str::parse, <$type>::to_string);
    };
    ($type:ty, $kind:literal, $read:expr, $write:expr) => {
        impl $crate::config::values::value::Value for $type {
            fn kind() -> String {
                $kind.to_owned()
            }

            fn from_toml(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Result<Self, $crate::config::section::BadValue> {
                let text = value
                    .get_ref()
                    .as_str()
                    .ok_or_else(|| $crate::config::values::value::mismatch::<Self>(value))?;
                $read(text)
                    .map_err(|error: String| $crate::config::values::value::bad(value, error))
            }

            fn to_toml(&self) -> String {
                $crate::config::values::scalar::quoted(&$write(self))
            }
        }
    };
}

pub(super) use text_value;
