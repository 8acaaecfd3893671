//! The functions of templates.

use std::cmp::Ordering;

use serde_json::Value;

use crate::display::{shown, shown_nested};
use crate::printf::printf;

const NAMES: [&str; 20] = [
    "and", "eq", "ge", "gt", "html", "index", "json", "le", "len", "lower", "lt", "ne", "not",
    "or", "print", "printf", "println", "slice", "title", "upper",
];

pub(crate) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(crate) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let text = |text: String| Ok(Value::String(text));
    match (name, arguments) {
        ("and" | "or", [.., last]) => Ok(last.clone()),
        ("not", [value]) => Ok(Value::Bool(!truth(value))),
        ("eq", [value, others @ ..]) if !others.is_empty() => {
            Ok(Value::Bool(others.iter().any(|other| same(value, other))))
        }
        ("ne", [a, b]) => Ok(Value::Bool(!same(a, b))),
        ("lt", [a, b]) => Ok(Value::Bool(order(a, b)?.is_lt())),
        ("le", [a, b]) => Ok(Value::Bool(order(a, b)?.is_le())),
        ("gt", [a, b]) => Ok(Value::Bool(order(a, b)?.is_gt())),
        ("ge", [a, b]) => Ok(Value::Bool(order(a, b)?.is_ge())),
        ("len", [value]) => match value {
            Value::Array(list) => Ok(list.len().into()),
            Value::Object(map) => Ok(map.len().into()),
            Value::String(text) => Ok(text.len().into()),
            _ => Err(format!("{} has no length", shown(value))),
        },
        ("index", [value, keys @ ..]) => keys
            .iter()
            .try_fold(value.clone(), |value, key| index(&value, key)),
        ("json", [value]) => text(format!("{value}\n")),
        ("html", values) => text(html(&print(values))),
        ("lower", [Value::String(value)]) => text(value.to_lowercase()),
        ("upper", [Value::String(value)]) => text(value.to_uppercase()),
        ("title", [Value::String(value)]) => text(title(value)),
        ("slice", [value, bounds @ ..]) => slice(value, bounds),
        ("print", values) => text(print(values)),
        ("println", values) => {
            let words: Vec<String> = values.iter().map(shown_nested).collect();
            text(format!("{}\n", words.join(" ")))
        }
        ("printf", [Value::String(format), values @ ..]) => text(printf(format, values)),
        _ => Err(format!("wrong arguments for `{name}`")),
    }
}

/// Returns whether `and` or `or` stop at this argument: they do not evaluate the rest.
pub(crate) fn decides(name: &str, argument: &Value) -> bool {
    match name {
        "and" => !truth(argument),
        "or" => truth(argument),
        _ => false,
    }
}

/// Returns whether a value is true in a condition: it is neither empty nor zero.
pub(crate) fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn index(value: &Value, key: &Value) -> Result<Value, String> {
    match (value, key) {
        // A missing key gives nothing, as in Go; only `.a` requires it.
        (Value::Object(map), Value::String(key)) => Ok(map.get(key).cloned().unwrap_or_default()),
        (Value::Array(list), Value::Number(number)) => number
            .as_u64()
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| list.get(at))
            .cloned()
            .ok_or_else(|| {
                format!(
                    "index {number} is out of range for a list of length {}",
                    list.len()
                )
            }),
        _ => Err(format!("cannot index {} with {}", shown(value), shown(key))),
    }
}

/// Returns the part from the first bound to the second; text is sliced by bytes.
fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let length = match value {
        Value::Array(list) => list.len(),
        Value::String(text) => text.len(),
        other => return Err(format!("cannot slice {}", shown(other))),
    };
    let bound = |at: usize, default: usize| match bounds.get(at) {
        None => Ok(default),
        Some(bound) => {
            let number = bound
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            let fits = number.filter(|number| *number <= length);
            fits.ok_or_else(|| {
                format!(
                    "slice bound {} is out of range for length {length}",
                    shown(bound)
                )
            })
        }
    };
    let (from, to) = (bound(0, 0)?, bound(1, length)?);
    let wrong = || format!("invalid slice from {from} to {to} for length {length}");
    if bounds.len() > 2 {
        return Err("slice takes at most two bounds".to_owned());
    }
    match value {
        Value::Array(list) => list.get(from..to).map(|part| part.to_vec().into()),
        Value::String(text) => text.get(from..to).map(Into::into),
        _ => None,
    }
    .ok_or_else(wrong)
}

/// Prints values, with spaces between two that are both not text.
fn print(values: &[Value]) -> String {
    let mut out = String::new();
    let mut before_is_text = true;
    for value in values {
        if !before_is_text && !value.is_string() {
            out.push(' ');
        }
        before_is_text = value.is_string();
        out.push_str(&shown_nested(value));
    }
    out
}

/// Escapes text for HTML.
fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
}

fn order(a: &Value, b: &Value) -> Result<Ordering, String> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Ok(a
            .as_f64()
            .unwrap_or_default()
            .total_cmp(&b.as_f64().unwrap_or_default())),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        _ => Err(format!("cannot compare {} and {}", shown(a), shown(b))),
    }
}

/// Capitalizes the first letter of each word.
fn title(text: &str) -> String {
    let mut begin = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if begin {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
        begin = !c.is_alphanumeric();
    }
    out
}
