//! The functions of templates, and how values are shown.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::Value;

const NAMES: [&str; 18] = [
    "and", "eq", "ge", "gt", "index", "json", "le", "len", "lower", "lt", "ne", "not", "or",
    "print", "printf", "println", "title", "upper",
];

pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let text = |text: String| Ok(Value::String(text));
    match (name, arguments) {
        ("and", [_, ..]) => {
            let first_false = arguments.iter().find(|value| !truth(value));
            Ok(first_false
                .or(arguments.last())
                .cloned()
                .unwrap_or_default())
        }
        ("or", [_, ..]) => {
            let first_true = arguments.iter().find(|value| truth(value));
            Ok(first_true.or(arguments.last()).cloned().unwrap_or_default())
        }
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
        ("lower", [Value::String(value)]) => text(value.to_lowercase()),
        ("upper", [Value::String(value)]) => text(value.to_uppercase()),
        ("title", [Value::String(value)]) => text(title(value)),
        ("print", values) => text(values.iter().map(shown).collect()),
        ("println", values) => {
            let words: Vec<String> = values.iter().map(shown).collect();
            text(format!("{}\n", words.join(" ")))
        }
        ("printf", [Value::String(format), values @ ..]) => text(printf(format, values)),
        _ => Err(format!("`{name}` can't take these arguments")),
    }
}

/// What counts as true in a condition: what isn't empty or zero.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A value as Go shows it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let entries: Vec<String> = list.iter().map(nested).collect();
            format!("[{}]", entries.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", nested(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

fn nested(value: &Value) -> String {
    if value.is_null() {
        "<nil>".to_owned()
    } else {
        shown(value)
    }
}

fn index(value: &Value, key: &Value) -> Result<Value, String> {
    match (value, key) {
        // A key that isn't there is nothing, as in Go; only `.a` insists.
        (Value::Object(map), Value::String(key)) => Ok(map.get(key).cloned().unwrap_or_default()),
        (Value::Array(list), Value::Number(number)) => number
            .as_u64()
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| list.get(at))
            .cloned()
            .ok_or_else(|| format!("index {number} is beyond a list of {}", list.len())),
        _ => Err(format!("cannot index {} by {}", shown(value), shown(key))),
    }
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

/// The first letter of each word large.
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

/// The verbs that make sense for JSON, widths of text included. Mistakes show in the output.
fn printf(format: &str, values: &[Value]) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || "-+.#".contains(c)));
        let Some((flags, verb)) =
            end.and_then(|end| Some((&rest[..end], rest[end..].chars().next()?)))
        else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        rest = &rest[flags.len() + verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            let _ = write!(out, "%!{verb}(MISSING)");
            continue;
        };
        let width: usize = flags.trim_start_matches('-').parse().unwrap_or(0);
        let text = match (verb, value) {
            ('q', Value::String(text)) => Value::String(text.clone()).to_string(),
            ('f', value) => {
                let digits = flags
                    .split_once('.')
                    .and_then(|(_, digits)| digits.parse().ok());
                format!(
                    "{:.*}",
                    digits.unwrap_or(6),
                    value.as_f64().unwrap_or_default()
                )
            }
            ('t' | 's' | 'v' | 'd', value) => shown(value),
            (verb, value) => format!("%!{verb}({})", shown(value)),
        };
        if flags.starts_with('-') {
            let _ = write!(out, "{text:<width$}");
        } else {
            let _ = write!(out, "{text:>width$}");
        }
    }
    out.push_str(rest);
    out
}
