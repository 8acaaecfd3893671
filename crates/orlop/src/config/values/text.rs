//! Values written as a string: any type that parses from and prints to text.

/// Gives a [`FromStr`](std::str::FromStr) + [`Display`](std::fmt::Display)
/// type its place in the configuration.
macro_rules! text_value {
    ($type:ty, $kind:literal) => {
        impl $crate::config::values::Value for $type {
            fn kind() -> String {
                $kind.to_owned()
            }

            fn from_toml(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Result<Self, $crate::config::section::BadValue> {
                let text = value
                    .get_ref()
                    .as_str()
                    .ok_or_else(|| $crate::config::values::mismatch::<Self>(value))?;
                text.parse()
                    .map_err(|error: String| $crate::config::values::bad(value, error))
            }

            fn to_toml(&self) -> String {
                $crate::config::values::scalar::quoted(&self.to_string())
            }
        }
    };
}

pub(super) use text_value;
