//! Output of the inspect commands: status of objects and additional information of the runtime.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::document;
use super::format::Format;

/// Status of one object.
pub(crate) struct StatusReport {
    /// Value of the key `status`.
    pub(crate) status: Value,
    /// Additional top-level keys from the runtime.
    pub(crate) info: HashMap<String, String>,
    /// Further top-level keys.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl StatusReport {
    /// Creates a report from a status and the runtime's additions.
    pub(crate) fn new(status: Value, info: HashMap<String, String>) -> Self {
        Self {
            status,
            info,
            more: Vec::new(),
        }
    }

    fn into_value(self) -> Value {
        let mut object = Map::new();
        object.insert("status".to_owned(), self.status);
        for (key, value) in self.more {
            object.insert(key.to_owned(), value);
        }
        for (key, text) in self.info {
            object.insert(key, addition(&text));
        }
        Value::Object(object)
    }
}

/// Prints reports: one as an object, several as a list.
pub(crate) fn print_reports(
    out: &mut impl Write,
    reports: Vec<StatusReport>,
    format: &Format,
) -> anyhow::Result<()> {
    let mut values: Vec<Value> = reports.into_iter().map(StatusReport::into_value).collect();
    let all = match values.len() {
        0 => return Ok(()),
        1 => values.remove(0),
        _ => Value::Array(values),
    };
    document::value(out, &all, format)
}

/// Parses an addition of a runtime, which is JSON or possibly quoted text.
fn addition(text: &str) -> Value {
    if text.starts_with('{')
        && let Ok(value) = serde_json::from_slice(text.as_bytes())
    {
        return value;
    }
    Value::String(text.trim_matches('"').to_owned())
}

/// Prints a map under a heading, in the layout of a single object's table.
pub(crate) fn labels(
    out: &mut impl Write,
    heading: &str,
    labels: &HashMap<String, String>,
) -> io::Result<()> {
    if labels.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading}:")?;
    let mut sorted: Vec<_> = labels.iter().collect();
    sorted.sort();
    for (key, value) in sorted {
        writeln!(out, "\t{key} -> {value}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn additions_stand_beside_the_status() {
        let info = HashMap::from([
            ("info".to_owned(), r#"{"pid":1}"#.to_owned()),
            ("sandboxID".to_owned(), r#""abc""#.to_owned()),
            ("broken".to_owned(), "{oops".to_owned()),
        ]);
        let value = StatusReport::new(json!({"id": "c1"}), info).into_value();
        assert_eq!(
            value,
            json!({"status": {"id": "c1"}, "info": {"pid": 1}, "sandboxID": "abc", "broken": "{oops"})
        );
    }

    #[test]
    fn one_report_is_no_list() {
        let print = |count: usize| {
            let reports = (0..count)
                .map(|_| StatusReport::new(json!({}), HashMap::new()))
                .collect();
            let mut out = Vec::new();
            print_reports(&mut out, reports, &Format::Json).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(print(1).starts_with('{'));
        assert!(print(2).starts_with('['));
        assert_eq!(print(0), "");
    }
}
