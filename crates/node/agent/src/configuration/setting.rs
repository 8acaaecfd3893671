//! The parts of the table of the kubelet's configuration.
//!
//! [`kubelet_config!`] turns a documented list of fields into their Kubernetes names and types,
//! defaults and flags, and records that they have an effect.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use orlop_kubelet_rules::pod::Quantity;
use orlop_text::flag::{Flag, FlagForm};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document::{Schema, Type};

/// The type of a configuration field.
pub(super) trait Setting: Sized {
    /// The form of its flag: how often it may be given, and with which values.
    const FORM: FlagForm = FlagForm::Value;

    /// Whether the flag's value is checked with the command line, or later with all settings.
    const IS_WORD: bool = true;

    /// Its type in the schema.
    fn kind() -> Type;

    /// Deserializes it from a file.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;

    /// Serializes it in the form of the file.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Parses it from all values of a flag.
    fn from_flag(given: &[String]) -> Result<Self, String> {
        Err(format!("no flag can set this field, given {given:?}"))
    }

    /// Adds its nested objects to the schema.
    fn describe(_: &mut Schema) {}

    /// Adds the flags of its nested fields.
    fn flags(_: &mut Vec<Flag>) {}

    /// Sets a nested field by its flag; `None` if it has no such field.
    fn set_by_flag(&mut self, _name: &str, _given: &[String]) -> Option<Result<(), String>> {
        None
    }

    /// Returns its nested fields that have an effect.
    fn fields() -> Vec<Field> {
        Vec::new()
    }

    /// Replaces zeros by defaults where Kubernetes treats zero as unset.
    fn without_zeros(self) -> Self {
        self
    }

    /// Whether it is a zero.
    fn is_zero(&self) -> bool {
        false
    }

    /// Whether it is optional and not set.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A field in the table.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    #[cfg(test)]
    pub(super) doc: &'static [&'static str],
    /// The flag that sets it.
    #[cfg(test)]
    pub(super) flag: Option<&'static str>,
}

/// When the default replaces the value in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "written as a word in kubelet_config!")]
pub(super) enum Instead {
    /// If the field is not set.
    unset,
    /// If the field is not set or zero, because Kubernetes treats zero as unset.
    zero,
}

/// Returns the value of a flag that takes one: the last occurrence wins.
fn last(given: &[String]) -> &str {
    given.last().map_or("", String::as_str)
}

fn parsed<T: FromStr<Err: ToString>>(given: &[String]) -> Result<T, String> {
    last(given)
        .parse()
        .map_err(|error: T::Err| error.to_string())
}

/// Implements `Setting` for types that serde reads and writes as Kubernetes does.
macro_rules! plain {
    ($($type:ty = $kind:expr $(, $how:ident)?;)*) => {$(
        impl Setting for $type {
            fn kind() -> Type {
                $kind
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::deserialize(from)
            }

            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.serialize(to)
            }

            $(plain!(@ $how);)?
        }
    )*};
    (@ switch) => {
        const FORM: FlagForm = FlagForm::Switch;
        plain!(@ text);
    };
    (@ text) => {
        fn from_flag(given: &[String]) -> Result<Self, String> {
            parsed(given)
        }
    };
    (@ pairs) => {
        const IS_WORD: bool = false;

        fn from_flag(given: &[String]) -> Result<Self, String> {
            pairs(given, '=')
        }
    };
    (@ headers) => {
        const FORM: FlagForm = FlagForm::Values;
        const IS_WORD: bool = false;

        fn from_flag(given: &[String]) -> Result<Self, String> {
            headers(given)
        }
    };
    (@ number) => {
        fn from_flag(given: &[String]) -> Result<Self, String> {
            let number: i64 = parsed(given)?;
            number
                .try_into()
                .map_err(|_| format!("{number} is not between {} and {}", Self::MIN, Self::MAX))
        }

        fn is_zero(&self) -> bool {
            *self == 0
        }
    };
}

plain! {
    bool = Type::Bool, switch;
    String = Type::Text, text;
    IpAddr = Type::Text, text;
    u8 = Type::Integer, number;
    u16 = Type::Integer, number;
    u32 = Type::Integer, number;
    u64 = Type::Integer, number;
    i32 = Type::Integer, number;
    i64 = Type::Integer, number;
    usize = Type::Integer, number;
    f64 = Type::Number;
    BTreeMap<String, bool> = Type::Map(Box::new(Type::Bool));
    BTreeMap<String, String> = Type::Map(Box::new(Type::Text)), pairs;
    BTreeMap<String, Vec<String>> = Type::Map(Box::new(Vec::<String>::kind())), headers;
}

impl Setting for Duration {
    fn kind() -> Type {
        Type::Duration
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        orlop_text::duration::parse(&text)
            .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a duration")))
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&orlop_text::duration::go(*self))
    }

    fn from_flag(given: &[String]) -> Result<Self, String> {
        orlop_text::duration::typed(last(given))
    }

    fn is_zero(&self) -> bool {
        Self::is_zero(self)
    }
}

impl Setting for Quantity {
    const IS_WORD: bool = false;

    fn kind() -> Type {
        Type::Quantity
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }

    fn from_flag(given: &[String]) -> Result<Self, String> {
        parsed(given)
    }
}

/// A list; its elements are read and written individually.
impl<T> Setting for Vec<T>
where
    T: Setting + Serialize + for<'de> Deserialize<'de>,
{
    const FORM: FlagForm = FlagForm::Values;

    fn kind() -> Type {
        Type::List(Box::new(T::kind()))
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }

    fn from_flag(given: &[String]) -> Result<Self, String> {
        given
            .iter()
            .map(|text| T::from_flag(std::slice::from_ref(text)))
            .collect()
    }

    fn describe(schema: &mut Schema) {
        T::describe(schema);
    }
}

/// A field that may be unset.
impl<T: Setting> Setting for Option<T> {
    const FORM: FlagForm = T::FORM;
    const IS_WORD: bool = T::IS_WORD;

    fn kind() -> Type {
        T::kind()
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Some)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(to),
            None => to.serialize_none(),
        }
    }

    fn from_flag(given: &[String]) -> Result<Self, String> {
        T::from_flag(given).map(Some)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// Parses thresholds: `memory.available<100Mi,nodefs.available<10%`.
pub(super) fn thresholds(given: &[String]) -> Result<BTreeMap<String, String>, String> {
    pairs(given, '<')
}

/// Parses thresholds for a field where unset differs from empty.
pub(super) fn own_thresholds(given: &[String]) -> Result<Option<BTreeMap<String, String>>, String> {
    thresholds(given).map(Some)
}

/// Parses headers: `name: value` in each occurrence of the flag.
fn headers(given: &[String]) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut headers = BTreeMap::<_, Vec<_>>::new();
    for header in given {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| format!("`{header}` is not of the form name:value"))?;
        let values = headers.entry(name.trim().to_owned()).or_default();
        values.push(value.trim().to_owned());
    }
    Ok(headers)
}

/// Parses pairs: `a=b,c=d`.
fn pairs(given: &[String], between: char) -> Result<BTreeMap<String, String>, String> {
    let parts = last(given).split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    let pair = |part: &str| match part.split_once(between) {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("`{part}` is not of the form key{between}value")),
    };
    parts.map(pair).collect()
}

/// Parses `a=b,c=d`, the value of a flag.
pub fn read_pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    pairs(&[text.to_owned()], '=')
}

/// Declares an object of the kubelet's configuration, with its name in Kubernetes.
///
/// Each field reads `name as "itsName": Type = default => unset`, or `=> zero` if a zero also means
/// the default. A field with a flag continues with `@ flag("name", "VALUE", "help")`, and with `;
/// function` if its type does not determine how the flag is parsed. The fields that Kubernetes
/// knows and that have no effect here come last.
macro_rules! kubelet_config {
    (
        $(#[doc = $doc:literal])*
        $name:ident as $object:literal {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident as $key:literal: $kind:ty = $default:expr => $instead:ident
                    $(@ $flag:expr $(; $read:path)?)?,
            )*
        }
        $(no effect: $idle:literal)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(default)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                #[serde(
                    rename = $key,
                    serialize_with = "Setting::write",
                    deserialize_with = "Setting::read",
                    skip_serializing_if = "Setting::is_absent"
                )]
                pub $field: $kind,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl Setting for $name {
            fn kind() -> $crate::document::Type {
                $crate::document::Type::Object($object)
            }

            fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(from)
            }

            fn write<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, to)
            }

            fn describe(schema: &mut $crate::document::Schema) {
                schema.add($object, [$( ($key, <$kind as Setting>::kind()), )*], concat!($($idle)?));
                $( <$kind as Setting>::describe(schema); )*
            }

            fn fields() -> Vec<$crate::configuration::setting::Field> {
                vec![$( $crate::configuration::setting::Field {
                    name: $key,
                    #[cfg(test)]
                    doc: &[$($field_doc),*],
                    #[cfg(test)]
                    flag: None$(.or(Some($flag.name)))?,
                }, )*]
            }

            fn without_zeros(self) -> Self {
                use $crate::configuration::setting::Instead;
                let defaults = Self::default();
                Self { $(
                    $field: match Instead::$instead {
                        Instead::zero if Setting::is_zero(&self.$field) => defaults.$field,
                        _ => Setting::without_zeros(self.$field),
                    },
                )* }
            }

            fn flags(into: &mut Vec<orlop_text::flag::Flag>) {
                $(
                    $(into.push(orlop_text::flag::Flag {
                        form: <$kind as Setting>::FORM,
                        check: |text| {
                            if <$kind as Setting>::IS_WORD {
                                <$kind as Setting>::from_flag(&[text.to_owned()])?;
                            }
                            Ok(())
                        },
                        ..$flag
                    });)?
                    <$kind as Setting>::flags(into);
                )*
            }

            fn set_by_flag(&mut self, name: &str, given: &[String]) -> Option<Result<(), String>> {
                $(
                    $(if name == $flag.name {
                        #[allow(unused_variables, reason = "the type's own, unless there is another")]
                        let read: fn(&[String]) -> Result<$kind, String> = Setting::from_flag;
                        $(let read: fn(&[String]) -> Result<$kind, String> = $read;)?
                        return Some(read(given).map(|value| self.$field = value));
                    })?
                    if let Some(set) = Setting::set_by_flag(&mut self.$field, name, given) {
                        return Some(set);
                    }
                )*
                None
            }
        }
    };
}

pub(super) use kubelet_config;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_the_kubelet_reads_them() {
        let given = ["memory.available<100Mi, nodefs.available<10%".to_owned()];
        assert_eq!(thresholds(&given).unwrap()["nodefs.available"], "10%");
        assert_eq!(read_pairs("").unwrap().len(), 0);
        assert!(read_pairs("a").is_err() && read_pairs("=a").is_err());
    }
}
