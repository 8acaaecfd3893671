//! What of their values a report does not show.

use toml::Value;

const HIDDEN: &str = "(not shown)";

/// Keys whose values, and all below them, are or may hold secrets.
const KEYS: [&str; 7] = [
    "auth", "auths", "env", "headers", "header", "log-opts", "proxies",
];
const ENDS: [&str; 4] = ["_env", "-env", "-proxy", "_proxy"];
/// Words that a key of a secret may have.
const WORDS: [&str; 4] = ["token", "password", "passwd", "secret"];

/// The value of a key as it may be shown: without secrets, and without logins in addresses.
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

/// As deep as the parser let it be.
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

/// A setting by its name, as among arguments, and addresses wherever they are in the text.
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
