//! Removal of secrets from the values in a report.

use toml::Value;

const HIDDEN: &str = "(not shown)";

/// Keys whose values, including nested ones, may contain secrets.
const KEYS: [&str; 7] = [
    "auth", "auths", "env", "headers", "header", "log-opts", "proxies",
];
const ENDS: [&str; 4] = ["_env", "-env", "-proxy", "_proxy"];
/// Words in the names of secret keys.
const WORDS: [&str; 4] = ["token", "password", "passwd", "secret"];

/// Returns the value of a key without secrets and without logins in URLs.
pub(super) fn hidden(path: &[String], value: &Value) -> Value {
    if path.iter().any(|part| is_secret(part)) {
        return Value::String(HIDDEN.to_owned());
    }
    bare(value)
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    KEYS.contains(&key.as_str())
        || ENDS.iter().any(|end| key.ends_with(end))
        || WORDS.iter().any(|word| key.contains(word))
}

/// The parser limits the depth.
fn bare(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(bare_text(text)),
        Value::Array(list) => {
            let mut is_next = false;
            let items = list.iter().map(|item| {
                let is_hidden = is_next;
                let name = item.as_str().unwrap_or_default();
                is_next = name.starts_with('-') && !name.contains('=') && is_secret(name);
                if is_hidden {
                    Value::String(HIDDEN.to_owned())
                } else {
                    bare(item)
                }
            });
            Value::Array(items.collect())
        }
        Value::Table(table) => {
            let entries = table.iter().map(|(key, value)| {
                let value = hidden(std::slice::from_ref(key), value);
                (key.clone(), value)
            });
            Value::Table(entries.collect())
        }
        other => other.clone(),
    }
}

/// Hides secrets in text: settings by name, as in arguments, and logins in URLs.
fn bare_text(text: &str) -> String {
    if let Some((name, _)) = text.split_once('=')
        && !name.contains("://")
        && is_secret(name)
    {
        return format!("{name}={HIDDEN}");
    }
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends = |c: char| c.is_whitespace() || "/?#,\"'".contains(c);
        let authority = &part[..part.find(ends).unwrap_or(part.len())];
        let login = authority.rfind('@').map_or(0, |at| at + 1);
        shown.push_str("://");
        shown.push_str(&part[login..]);
    }
    shown
}
