//! The schema of a kind: its fields and their types, written as a text table.
//!
//! A line `Name: field type, field type` describes an object; lines that begin with a blank
//! continue it. A type is one of the words below, the name of an object, `[type]` for a list or
//! `{type}` for a map with any keys.

use std::collections::BTreeMap;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// `str`
    Text,
    /// `bool`
    Bool,
    /// `int`
    Integer,
    /// `num`
    Number,
    /// `qty`: a quantity such as `500m`, or a number.
    Quantity,
    /// `intstr`: a number or a string.
    IntOrText,
    /// `time`: a timestamp in RFC 3339.
    Time,
    /// `dur`: a duration such as `1m30s`.
    Duration,
    /// `bytes`: base64.
    Bytes,
    /// `any`: not checked.
    Any,
    /// `[type]`
    List(Box<Type>),
    /// `{type}`
    Map(Box<Type>),
    /// The name of an object.
    Object(&'static str),
}

/// The fields of an object, by name.
pub(crate) type Fields = BTreeMap<&'static str, Type>;

/// Objects by name.
#[derive(Debug)]
pub(crate) struct Schema {
    objects: BTreeMap<&'static str, Fields>,
}

impl Schema {
    /// Parses a table, which is part of the program and therefore trusted: a word that is not a
    /// type names an object.
    pub(crate) fn read(tables: &[&'static str]) -> Self {
        let mut objects: BTreeMap<_, Fields> = BTreeMap::new();
        let mut current = "";
        for line in tables.iter().flat_map(|table| table.lines()) {
            let fields = match line.split_once(':') {
                Some((name, fields)) if !line.starts_with(' ') => {
                    current = name.trim();
                    fields
                }
                _ => line,
            };
            let object = objects.entry(current).or_default();
            read_fields(fields, object);
        }
        objects.remove("");
        Self { objects }
    }

    /// Adds an object with these fields, and more of them from a table.
    pub(crate) fn add<const N: usize>(
        &mut self,
        object: &'static str,
        fields: [(&'static str, Type); N],
        more: &'static str,
    ) {
        let into = self.objects.entry(object).or_default();
        into.extend(fields);
        read_fields(more, into);
    }

    /// Returns the fields of an object.
    pub(crate) fn object(&self, name: &str) -> Option<&Fields> {
        self.objects.get(name)
    }
}

/// Parses `name type, name type`, with any white space between.
fn read_fields(text: &'static str, into: &mut Fields) {
    for field in text.split(',').map(str::trim) {
        if let Some((name, kind)) = field.split_once(' ') {
            into.insert(name, Type::read(kind.trim()));
        }
    }
}

impl Type {
    fn read(text: &'static str) -> Self {
        match text {
            "str" => Self::Text,
            "bool" => Self::Bool,
            "int" => Self::Integer,
            "num" => Self::Number,
            "qty" => Self::Quantity,
            "intstr" => Self::IntOrText,
            "time" => Self::Time,
            "dur" => Self::Duration,
            "bytes" => Self::Bytes,
            "any" => Self::Any,
            _ => {
                let within = |open, close| {
                    text.strip_prefix(open)
                        .and_then(|rest: &'static str| rest.strip_suffix(close))
                };
                if let Some(inner) = within('[', ']') {
                    Self::List(Box::new(Self::read(inner)))
                } else if let Some(inner) = within('{', '}') {
                    Self::Map(Box::new(Self::read(inner)))
                } else {
                    Self::Object(text)
                }
            }
        }
    }

    /// Describes the type for people.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "true or false",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Quantity => "a quantity such as 500m or 1Gi",
            Self::IntOrText => "a number or a string",
            Self::Time => "a time such as 2030-01-02T03:04:05Z",
            Self::Duration => "a duration such as 1m30s",
            Self::Bytes => "base64",
            Self::Any => "anything",
            Self::List(_) => "a list",
            Self::Map(_) | Self::Object(_) => "a map",
        }
    }
}
