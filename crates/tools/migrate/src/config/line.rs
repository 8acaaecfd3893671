//! The lines of a TOML file with their line numbers.

use std::path::{Path, PathBuf};

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::secrets;
use crate::{Error, Result};

/// Size limit of a configuration file.
pub(super) const LARGEST: u64 = 4 << 20;

/// A key whose value is no table.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    pub(super) path: Vec<String>,
    pub(super) value: Value,
}

impl Line {
    pub(super) fn key(&self) -> String {
        self.path.join(".")
    }

    /// Formats the value without secrets.
    pub(super) fn shown(&self) -> String {
        let mut shown = secrets::hidden(&self.path, &self.value).to_string();
        if shown.len() > 200 {
            let end = (0..=200).rev().find(|at| shown.is_char_boundary(*at));
            shown.truncate(end.unwrap_or_default());
            shown.push('…');
        }
        shown
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_str()
    }

    pub(super) fn segments(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Returns whether the value is empty, zero or false.
    pub(super) fn is_nothing(&self) -> bool {
        match &self.value {
            Value::String(text) => text.is_empty() || text == "0s" || text == "0",
            Value::Integer(number) => *number == 0,
            Value::Boolean(is_set) => !is_set,
            Value::Array(list) => list.is_empty(),
            Value::Table(table) => table.is_empty(),
            _ => false,
        }
    }
}

pub(super) fn read(file: &Path) -> Result<String> {
    orlop_fs::read_text(file, LARGEST).map_err(|error| Error::at("cannot read", file, error))
}

/// Parses all lines of a text.
pub(super) fn lines(file: &Path, text: &str) -> Result<Vec<Line>> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let place = format!("{}:{}", file.display(), number(text, at));
        Error::invalid(place, error.message().replace('\n', ", "))
    })?;
    let mut lines = Vec::new();
    let mut ahead: Vec<(Vec<String>, &DeTable<'_>)> = vec![(Vec::new(), parsed.get_ref())];
    while let Some((above, table)) = ahead.pop() {
        for (key, value) in table {
            let mut path = above.clone();
            path.push(key.get_ref().to_string());
            match value.get_ref() {
                DeValue::Table(inner) if !inner.is_empty() => ahead.push((path, inner)),
                other => lines.push(Line {
                    file: file.to_owned(),
                    line: number(text, key.span().start),
                    path,
                    value: plain(other),
                }),
            }
        }
    }
    lines.sort_by_key(|line| line.line);
    Ok(lines)
}

/// Returns the line number of a byte offset.
fn number(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.split(|byte| *byte == b'\n').count()
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => number
            .to_string()
            .parse()
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => number
            .to_string()
            .parse()
            .map_or_else(|_| Value::String(number.to_string()), Value::Float),
        DeValue::Boolean(is_set) => Value::Boolean(*is_set),
        DeValue::Datetime(moment) => Value::Datetime(*moment),
        // The parser limits the depth.
        DeValue::Array(list) => {
            Value::Array(list.iter().map(|item| plain(item.get_ref())).collect())
        }
        DeValue::Table(table) => Value::Table(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref())))
                .collect(),
        ),
    }
}
