//! The trait of all types of configuration keys.

use orlop_text::flag::FlagForm;
use toml::Spanned;
use toml::de::DeValue;

use crate::config::section::BadValue;

/// A type that a configuration key can have.
pub(crate) trait Value: Sized {
    /// Returns the type name in the documentation: `duration`, `list of path`…
    fn kind() -> String;

    /// Parses the value from a file.
    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue>;

    /// Formats the value as TOML.
    fn to_toml(&self) -> String;

    /// The form of a flag with this type: whether it may be repeated, and what argument it takes.
    const FORM: FlagForm = FlagForm::Value;

    /// Parses the value from a flag.
    fn from_flag(text: &str) -> Result<Self, String> {
        let value = Spanned::new(0..0, DeValue::String(text.into()));
        Self::from_toml(&value).map_err(|wrong| wrong.message)
    }

    /// Parses the value from all occurrences of a flag.
    fn from_flags(texts: &[String]) -> Result<Self, String> {
        Self::from_flag(texts.last().map_or("", String::as_str))
    }
}

pub(super) fn mismatch<T: Value>(value: &Spanned<DeValue<'_>>) -> BadValue {
    let found = match value.get_ref() {
        DeValue::Table(_) => "table",
        other => other.type_str(),
    };
    bad(value, format!("expected a {}, found a {found}", T::kind()))
}

pub(super) fn bad(value: &Spanned<DeValue<'_>>, message: impl Into<String>) -> BadValue {
    BadValue {
        span: value.span(),
        message: message.into(),
    }
}
