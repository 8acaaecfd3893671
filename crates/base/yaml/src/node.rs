//! Values and their positions.

use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

/// A position in a text, counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)
    }
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The position of its first character.
    pub at: Position,
    /// The value.
    pub content: Content,
}

/// The content of a value. Lists and maps are shared, so an alias costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// `null`, or an absent value.
    Null,
    /// `true`, `no` …
    Bool(bool),
    /// `1`, `0x10`, `1e3` …
    Number(Number),
    /// Any other scalar.
    Text(String),
    /// A list of values.
    List(Arc<Vec<Node>>),
    /// A map of named values, in their written order.
    Map(Arc<Vec<Entry>>),
}

/// One key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, as it was written.
    pub key: String,
    /// The position of the key.
    pub at: Position,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns the value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| &entry.value),
            _ => None,
        }
    }

    /// Returns the text, if this is a text.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the kind of this value, for error messages.
    pub fn what(&self) -> String {
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::Bool(value) => format!("the boolean {value}"),
            Content::Number(value) => format!("the number {value}"),
            Content::Text(_) => "a string".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }

    /// Converts it to JSON without positions.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => (*value).into(),
            Content::Number(number) => number.clone().into(),
            Content::Text(text) => text.as_str().into(),
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Map(entries) => {
                let pair = |entry: &Entry| (entry.key.clone(), entry.value.to_json());
                entries.iter().map(pair).collect()
            }
        }
    }
}
