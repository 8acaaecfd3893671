//! The configuration of an endpoint as text, in tables with lines. Possible secrets are left out, judged by name or
//! value, as the format depends on the runtime.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::bounded::{LONGEST_TEXT, MOST, cut};

/// Limits of size and depth.
const LARGEST: usize = 256 << 10;
const DEEPEST: usize = 12;

/// Replacement for a secret.
const HIDDEN: &str = "(hidden)";

/// Keys that contain one of these words are secrets, or may contain some.
const SECRET: &[&str] = &[
    "annotation",
    "arg",
    "auth",
    "cert",
    "cookie",
    "cred",
    "env",
    "header",
    "key",
    "pass",
    "proxy",
    "pwd",
    "secret",
    "sign",
    "token",
    "user",
];

/// Keys with these endings are files, whatever the files contain.
const FILES: &[&str] = &["path", "paths", "file", "dir"];

/// Returns the text, or `None` if it is empty.
pub(super) fn text(config: &Value) -> Option<String> {
    let mut text = String::new();
    write_table(&mut text, "", config.as_object()?, 0);
    (!text.is_empty()).then_some(text)
}

/// Writes the lines of a table, then its subtables.
fn write_table(text: &mut String, path: &str, table: &Map<String, Value>, depth: usize) {
    let mut is_named = path.is_empty();
    let mut tables = Vec::new();
    for (name, value) in table.iter().take(MOST) {
        let is_hidden = is_secret(name);
        let name = name_of(name);
        let told = match value {
            Value::Null => continue,
            Value::Bool(_) | Value::Number(_) => plain(value),
            _ if is_hidden => HIDDEN.to_owned(),
            Value::Object(inner) => {
                tables.push((name, inner));
                continue;
            }
            value => plain(value),
        };
        if text.len() > LARGEST {
            return;
        }
        if !is_named {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{path}]");
            is_named = true;
        }
        let _ = writeln!(text, "{name} = {told}");
    }
    if depth == DEEPEST {
        return;
    }
    for (name, inner) in tables {
        let dot = if path.is_empty() { "" } else { "." };
        write_table(text, &format!("{path}{dot}{name}"), inner, depth + 1);
    }
}

/// Formats a key as TOML. A key may be a URL with a password.
fn name_of(name: &str) -> String {
    if looks_secret(name) {
        return Value::from(HIDDEN).to_string();
    }
    let name = cut(name);
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    Value::from(name).to_string()
}

/// Formats a value other than a table; tables in lists are left out.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => word(text).to_string(),
        Value::Array(all) => {
            let mut is_value_of_secret = false;
            let all = all.iter().take(MOST).map(|one| {
                let is_hidden = is_value_of_secret;
                let text = one.as_str().unwrap_or_default();
                is_value_of_secret = words(text).next_back().is_some_and(is_secret_flag);
                match one {
                    Value::Object(_) | Value::Array(_) => "…".to_owned(),
                    _ if is_hidden => Value::from(HIDDEN).to_string(),
                    one => plain(one),
                }
            });
            let mut told = String::from("[");
            for one in all {
                if told.len() > LONGEST_TEXT {
                    told.push_str(", …");
                    break;
                }
                let comma = if told.len() > 1 { ", " } else { "" };
                let _ = write!(told, "{comma}{one}");
            }
            told + "]"
        }
        value => value.to_string(),
    }
}

/// Returns a text that does not look like a secret, else its replacement.
fn word(text: &str) -> Value {
    if looks_secret(text) {
        return HIDDEN.into();
    }
    cut(text).into()
}

/// Returns whether a text contains a key, an assignment to a secret's name, a secret flag with a value, or a URL with a
/// password.
fn looks_secret(text: &str) -> bool {
    let mut followed = words(text).rev().skip(1);
    text.contains("-----BEGIN")
        || assigned(text).any(is_secret)
        || followed.any(is_secret_flag)
        || has_password_in_address(text)
}

/// Returns the names to which something is assigned: options, URL parameters, JSON fields.
fn assigned(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| is_between_options(c) || matches!(c, '=' | ':');
    text.match_indices(['=', ':']).map(move |(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let name = before.rsplit(is_between).next().unwrap_or_default().trim();
        // The host before a port is not a name, but the path after it may be.
        name.strip_prefix("//").map_or(name, |address| {
            address.split_once('/').map_or("", |(_, path)| path)
        })
    })
}

/// Returns the words of a command, or of a list in one text.
fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let is_between = |c: char| is_between_options(c) || c.is_whitespace();
    text.split(is_between).filter(|word| !word.is_empty())
}

fn is_between_options(c: char) -> bool {
    matches!(c, ',' | ';' | '&' | '?')
}

/// Returns whether the next word is the value of a secret.
fn is_secret_flag(word: &str) -> bool {
    word.starts_with('-') && is_secret(word.trim_end_matches(['=', ':']))
}

/// Finds `name:password@` anywhere in a text. In an image reference, `@` is followed by the digest.
fn has_password_in_address(text: &str) -> bool {
    text.split_once(':').is_some_and(|(_, rest)| {
        let mut hosts = rest.split('@').skip(1);
        hosts.any(|host| !host.starts_with("sha256:") && !host.starts_with("sha512:"))
    })
}

fn is_secret(name: &str) -> bool {
    let name = name.trim_matches('"').to_ascii_lowercase();
    if FILES.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    SECRET.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_come_after_the_lines_of_their_own() {
        let config = json!({
            "cni": { "binDir": "/opt/cni/bin", "maxConfNum": 1 },
            "containerd": { "runtimes": { "run.c": { "options": {}, "type": "io.containerd.runc.v2" } } },
            "enableSelinux": false,
            "devices": ["/dev/fuse", 7, null, { "a": 1 }],
            "nothing": null,
        });
        let expected = "devices = [\"/dev/fuse\", 7, null, …]\n\
            enableSelinux = false\n\
            \n[cni]\nbinDir = \"/opt/cni/bin\"\nmaxConfNum = 1\n\
            \n[containerd.runtimes.\"run.c\"]\ntype = \"io.containerd.runc.v2\"\n";
        assert_eq!(text(&config).unwrap(), expected);
        for nothing in [
            json!(null),
            json!({}),
            json!([1]),
            json!({ "a": { "b": null } }),
        ] {
            assert_eq!(text(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_told() {
        let config = json!({
            "registry": {
                "auths": { "host": { "username": "hunter2", "password": "hunter2" } },
                "configs": { "host": { "auth": { "identitytoken": "hunter2" } } },
                "headers": { "X-Meta": ["hunter2"] },
                "mirrors": { "host": { "endpoint": ["https://name:hunter2@host/path", "https://host"] } },
            },
            "crio": {
                "ConmonEnv": ["PASSWORD=hunter2"],
                "DefaultEnv": ["hunter2"],
                "Runtimes": { "kata": { "MonitorEnv": ["hunter2"], "DefaultAnnotations": { "a": "hunter2" } } },
                "Options": ["--password=hunter2", "ApiToken: hunter2", "size=1"],
                "Mount": "vers=3.0,password=hunter2",
                "Quoted": "{\"a\":{\"password\":\"hunter2\"}}",
                "Spaced": "size=1, password = hunter2",
                "Words of a name": "pass phrase: hunter2",
                "Mirror": "https://mirror/v2?token=hunter2",
                "Mirrors": "https://first https://name:hunter2@second",
                "Database": "name:hunt/er2hunter2@tcp(host)",
                "Command": "run --password hunter2",
                "Words": ["--password", "hunter2", "--pin-token", 20011, "--size", "7", "run --secret", "hunter2"],
                "https://name:hunter2@host": { "a": "b" },
                "Image": "host:5000/pause:3@sha256:00",
                "Host": "https://auth.host:5000/v2?size=1",
                "Pem": "-----BEGIN PRIVATE KEY-----\nhunter2",
                "GlobalAuthFile": "/etc/auth.json",
                "DecryptionKeysPath": "/etc/crio/keys/",
                "UserNamespaces": true,
            },
        });
        let told = text(&config).unwrap();
        for secret in ["hunter2", "20011"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
        for shown in [
            "endpoint = [\"(hidden)\", \"https://host\"]",
            "Options = [\"(hidden)\", \"(hidden)\", \"size=1\"]",
            "Words = [\"--password\", \"(hidden)\", \"--pin-token\", \"(hidden)\", \"--size\", \"7\", ",
            "[crio.\"(hidden)\"]\na = \"b\"",
            "Image = \"host:5000/pause:3@sha256:00\"",
            "Host = \"https://auth.host:5000/v2?size=1\"",
            "ConmonEnv = (hidden)",
            "UserNamespaces = true",
            "GlobalAuthFile = \"/etc/auth.json\"",
            "DecryptionKeysPath = \"/etc/crio/keys/\"",
        ] {
            assert!(told.contains(shown), "{shown}: {told}");
        }
    }

    #[test]
    fn what_has_no_end_is_told_to_some_length_and_depth() {
        let mut deep = json!({ "end": 1 });
        for _ in 0..100 {
            deep = json!({ "in": deep, "here": 1 });
        }
        let told = text(&deep).unwrap();
        assert_eq!(told.matches("here").count(), DEEPEST + 1);
        let long = "x".repeat(2 * LONGEST_TEXT);
        let table: Map<String, Value> = (0..MOST * 2)
            .map(|number| (number.to_string(), vec![long.clone(); 9].into()))
            .collect();
        let told = text(&Value::Object(table)).unwrap();
        assert!(told.len() < LARGEST + 4 * LONGEST_TEXT, "{}", told.len());
    }
}
