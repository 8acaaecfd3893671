//! JSON values as YAML, in the block style of the Kubernetes tools.

use std::fmt::Write;

use serde_json::Value;

/// Formats a value, ending with a newline.
pub(super) fn to_string(value: &Value) -> String {
    let mut out = String::new();
    if has_entries(value) {
        block(&mut out, value, 0);
    } else {
        inline(&mut out, value, 0);
    }
    out
}

fn has_entries(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

/// Writes a map or list that is not empty, each entry on its own lines.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(out, "{:indent$}", "");
                scalar(out, key, indent);
                out.push(':');
                entry(out, value, indent, false);
            }
        }
        Value::Array(list) => {
            for value in list {
                let _ = write!(out, "{:indent$}-", "");
                entry(out, value, indent, true);
            }
        }
        _ => {}
    }
}

/// Writes the value after `key:` or `-`.
fn entry(out: &mut String, value: &Value, indent: usize, in_list: bool) {
    if !has_entries(value) {
        out.push(' ');
        inline(out, value, indent);
    } else if in_list {
        // The first entry follows the dash on its line.
        let mut nested = String::new();
        block(&mut nested, value, indent + 2);
        out.push(' ');
        out.push_str(nested.trim_start_matches(' '));
    } else {
        out.push('\n');
        // The dashes of a list are aligned with its key.
        let deeper = if value.is_array() { indent } else { indent + 2 };
        block(out, value, deeper);
    }
}

fn inline(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(value) => {
            let _ = write!(out, "{value}");
        }
        Value::String(text) => scalar(out, text, indent),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// Writes text: plain if it is read back as text, as a block if it has several lines, else quoted.
fn scalar(out: &mut String, text: &str, indent: usize) {
    let printable = |c: char| c == '\n' || c == '\t' || !c.is_control();
    if !text.chars().all(printable) || looks_otherwise(text) {
        let _ = write!(out, "{}", Value::String(text.to_owned()));
    } else if text.contains('\n') && !text.starts_with([' ', '\n']) {
        let trimmed = text.trim_end_matches('\n');
        out.push_str(match text.len() - trimmed.len() {
            0 => "|-",
            1 => "|",
            _ => "|+",
        });
        for line in trimmed.split('\n') {
            out.push('\n');
            if !line.is_empty() {
                let _ = write!(out, "{:1$}{line}", "", indent + 2);
            }
        }
        for _ in 1..text.len() - trimmed.len() {
            out.push('\n');
        }
    } else if is_plain(text) {
        out.push_str(text);
    } else if text.contains(['\n', '\t']) {
        let _ = write!(out, "{}", Value::String(text.to_owned()));
    } else {
        let _ = write!(out, "'{}'", text.replace('\'', "''"));
    }
}

/// Returns whether plain text would be read as another type.
fn looks_otherwise(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan",
    ];
    let lower = text.to_ascii_lowercase();
    if WORDS.contains(&lower.as_str()) || lower.trim_start_matches(['+', '-']) == ".inf" {
        return true;
    }
    let Some(first) = text.chars().next() else {
        return true;
    };
    if !(first.is_ascii_digit() || "+-.".contains(first)) {
        return false;
    }
    let number = text.replace('_', "");
    number.parse::<f64>().is_ok()
        || number.starts_with("0x")
        || number.starts_with("0o")
        || number.starts_with("0b")
        || is_date(text)
        || is_sexagesimal(text)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'-'
        && bytes[8..10].iter().all(u8::is_ascii_digit)
}

fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || ":._+-".contains(c))
}

/// Returns whether text is valid without quotes.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let indicator = match first {
        Some('-' | '?' | ':') => text.len() == 1 || text[1..].starts_with([' ', '\t']),
        Some(c) => ",[]{}#&*!|>'\"%@`=<".contains(c) || c.is_whitespace(),
        None => true,
    };
    !indicator
        && !text.ends_with([' ', '\t', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(['\n', '\t'])
        && text != "---"
        && text != "..."
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_kubernetes_tools_do() {
        let value = json!({
            "items": [{"id": "a", "labels": {}, "names": ["x", "z"]}, {"id": "b"}],
            "createdAt": "1700000000",
            "empty": "",
            "flag": true,
            "list": [],
            "lines": "a\nb\n",
            "nested": [["p"], "q"],
            "time": "2026-01-01T00:00:00Z",
            "url": "http://x:80/a",
            "odd": "a: b",
            "quote": "'",
        });
        assert_eq!(
            to_string(&value),
            r#"createdAt: "1700000000"
empty: ""
flag: true
items:
- id: a
  labels: {}
  names:
  - x
  - z
- id: b
lines: |
  a
  b
list: []
nested:
- - p
- q
odd: 'a: b'
quote: ''''
time: "2026-01-01T00:00:00Z"
url: http://x:80/a
"#
        );
    }

    #[test]
    fn text_that_looks_like_something_else_is_quoted() {
        for text in [
            "true", "No", "null", "~", "1.5", "-1", "0x1f", "1e3", ".5", "12:30",
        ] {
            assert_eq!(to_string(&json!(text)), format!("\"{text}\"\n"));
        }
        for text in ["truth", "v1.5", "a-b", "sha256:abc", "1.2.3", "/a/b", "-a"] {
            assert_eq!(to_string(&json!(text)), format!("{text}\n"));
        }
    }
}
