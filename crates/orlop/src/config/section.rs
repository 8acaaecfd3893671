//! The tables of the configuration file.
//!
//! The [`section!`] macro turns a documented struct into a table: its fields are the keys, its doc comments the
//! documentation, its initialisers the defaults.

use std::any::Any;
use std::ops::Range;

use orlop_text::flag::Flag;
use toml::Spanned;
use toml::de::DeValue;

/// One table of the configuration file.
pub(crate) trait Section {
    /// Returns the documentation of the table.
    fn doc(&self) -> &'static [&'static str];

    /// Returns every key with its current value.
    fn keys(&self) -> Vec<Key>;

    /// Restores values from `old`: those that need a restart, or all of them.
    fn keep(&mut self, old: &dyn Any, all: bool);

    /// Needed by [`Self::keep`].
    fn as_any(&self) -> &dyn Any;

    /// Sets one key from a file.
    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), SetError>;

    /// Sets one key from the values of its flag.
    fn set_by_flag(&mut self, key: &str, given: &[String]) -> Result<(), String>;
}

/// A key, its documentation and its value written as TOML.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) kind: String,
    pub(crate) value: String,
    pub(crate) applies: Applies,
    pub(crate) flag: Option<Flag>,
}

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applies {
    /// At a reload.
    #[allow(non_camel_case_types, reason = "written as a word in section!")]
    live,
    /// When the daemon starts.
    #[allow(non_camel_case_types, reason = "written as a word in section!")]
    restart,
}

/// Reason why a key could not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SetError {
    /// The table has no such key.
    Unknown,
    /// The key exists, but the value is invalid.
    Bad(BadValue),
}

/// An invalid value and its position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

/// Returns the name of a key with its table.
pub(super) fn dotted(table: &str, key: &str) -> String {
    if table.is_empty() {
        key.to_owned()
    } else {
        format!("{table}.{key}")
    }
}

/// Declares a table of the configuration file.
///
/// Each key reads `name: Type = default => live` (applied by a reload) or `=> restart` (applied at the next start). A
/// key with a daemon flag continues with `@ flag("name", "VALUE", "help")`.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $key:ident: $kind:ty = $default:expr => $applies:ident $(@ $flag:expr)?,
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(dead_code, reason = "a key is read by the part it configures")]
        pub(crate) struct $name {
            $( $(#[doc = $key_doc])* pub(crate) $key: $kind, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )* }
            }
        }

        impl $crate::config::section::Section for $name {
            fn doc(&self) -> &'static [&'static str] {
                &[$($doc),*]
            }

            fn keys(&self) -> Vec<$crate::config::section::Key> {
                use $crate::config::values::Value;
                #[allow(unused_imports, reason = "a table may have no flags")]
                use orlop_text::flag::{Flag, flag};
                vec![$(
                    $crate::config::section::Key {
                        name: stringify!($key),
                        doc: &[$($key_doc),*],
                        kind: <$kind as Value>::kind(),
                        value: self.$key.to_toml(),
                        applies: $crate::config::section::Applies::$applies,
                        flag: None$(.or(Some(Flag {
                            form: <$kind as Value>::FORM,
                            check: |text| <$kind as Value>::from_flag(text).map(drop),
                            ..$flag
                        })))?,
                    },
                )*]
            }

            fn keep(&mut self, old: &dyn std::any::Any, all: bool) {
                let Some(old) = old.downcast_ref::<Self>() else {
                    return;
                };
                $(
                    let applies = $crate::config::section::Applies::$applies;
                    if all || applies == $crate::config::section::Applies::restart {
                        self.$key.clone_from(&old.$key);
                    }
                )*
            }

            fn as_any(&self) -> &dyn std::any::Any {
                self
            }

            fn set(
                &mut self,
                key: &str,
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Result<(), $crate::config::section::SetError> {
                use $crate::config::{section::SetError, values::Value};
                match key {
                    $(
                        stringify!($key) => {
                            self.$key = <$kind as Value>::from_toml(value)
                                .map_err(SetError::Bad)?;
                            Ok(())
                        }
                    )*
                    _ => Err(SetError::Unknown),
                }
            }

            fn set_by_flag(&mut self, key: &str, given: &[String]) -> Result<(), String> {
                use $crate::config::values::Value;
                match key {
                    $(
                        stringify!($key) => {
                            self.$key = <$kind as Value>::from_flags(given)?;
                            Ok(())
                        }
                    )*
                    _ => Err(format!("unknown key {key:?}")),
                }
            }
        }
    };
}

pub(crate) use section;
