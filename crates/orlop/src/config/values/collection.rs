//! Lists, maps of values, and optional values.

use std::collections::BTreeMap;

use orlop_text::flag::FlagForm;
use toml::Spanned;
use toml::de::DeValue;

use super::scalar::quoted;
use super::value::{Value, mismatch};
use crate::config::section::BadValue;

impl<T: Value> Value for Vec<T> {
    fn kind() -> String {
        format!("list of {}", T::kind())
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        let items = value
            .get_ref()
            .as_array()
            .ok_or_else(|| mismatch::<Self>(value))?;
        items.iter().map(T::from_toml).collect()
    }

    fn to_toml(&self) -> String {
        let items: Vec<String> = self.iter().map(T::to_toml).collect();
        format!("[{}]", items.join(", "))
    }

    const FORM: FlagForm = FlagForm::Values;

    fn from_flag(text: &str) -> Result<Self, String> {
        T::from_flag(text).map(|item| vec![item])
    }

    fn from_flags(texts: &[String]) -> Result<Self, String> {
        texts.iter().map(|text| T::from_flag(text)).collect()
    }
}

/// An inline table. It replaces the whole table of an earlier file.
impl<T: Value> Value for BTreeMap<String, T> {
    fn kind() -> String {
        format!("table of {}", T::kind())
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        let table = value
            .get_ref()
            .as_table()
            .ok_or_else(|| mismatch::<Self>(value))?;
        table
            .iter()
            .map(|(key, value)| Ok((key.get_ref().to_string(), T::from_toml(value)?)))
            .collect()
    }

    fn to_toml(&self) -> String {
        if self.is_empty() {
            return "{}".to_owned();
        }
        let items: Vec<String> = self
            .iter()
            .map(|(key, value)| format!("{} = {}", quoted(key), value.to_toml()))
            .collect();
        format!("{{ {} }}", items.join(", "))
    }
}

/// The empty string stands for "not set".
impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        format!("{}, may be empty", T::kind())
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        if value.get_ref().as_str() == Some("") {
            return Ok(None);
        }
        T::from_toml(value).map(Some)
    }

    fn to_toml(&self) -> String {
        self.as_ref().map_or_else(|| "\"\"".to_owned(), T::to_toml)
    }
}
