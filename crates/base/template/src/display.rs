//! The default format of values.

use serde_json::Value;

/// Formats a value as Go does.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let entries: Vec<String> = list.iter().map(shown_nested).collect();
            format!("[{}]", entries.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", shown_nested(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

pub(crate) fn shown_nested(value: &Value) -> String {
    if value.is_null() {
        "<nil>".to_owned()
    } else {
        shown(value)
    }
}

/// Returns the shortest digits, with an exponent if that is below -4 or at least 21.
fn float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}
