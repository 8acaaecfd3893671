//! What an endpoint tells of its configuration, as text: tables with their lines. What may be a secret is not in
//! it, by its name or by its looks: whose configuration it is decides what stands there, and its words are many.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::bounded::{LONGEST_TEXT, MOST, cut};

/// What is told at most, and how deep.
const LARGEST: usize = 256 << 10;
const DEEPEST: usize = 12;

/// In place of a secret.
const HIDDEN: &str = "(hidden)";

/// Names with one of these in them are of secrets, or of what people put secrets in.
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

/// Names that end like this are of files, whatever is in them.
const FILES: &[&str] = &["path", "paths", "file", "dir"];

/// The text, where there is anything to tell.
pub(super) fn text(config: &Value) -> Option<String> {
    let mut text = String::new();
    write_table(&mut text, "", config.as_object()?, 0);
    (!text.is_empty()).then_some(text)
}

/// The lines of a table, then the tables in it.
fn write_table(text: &mut String, path: &str, table: &Map<String, Value>, depth: usize) {
    let mut is_named = path.is_empty();
    let mut tables = Vec::new();
    for (name, value) in table.iter().take(MOST) {
        let name = name_of(name);
        let told = match value {
            Value::Null => continue,
            Value::Bool(_) | Value::Number(_) => plain(value),
            _ if is_secret(&name) => HIDDEN.to_owned(),
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

/// As TOML has it.
fn name_of(name: &str) -> String {
    let name = cut(name);
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    Value::from(name).to_string()
}

/// Anything but a table; one in a list is not told.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => word(text).to_string(),
        Value::Array(all) => {
            let all = all.iter().take(MOST).map(|one| match one {
                Value::Object(_) | Value::Array(_) => "…".to_owned(),
                one => plain(one),
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

/// A text that is no secret by its looks: a key, an assignment to such a name, a password in an address.
fn word(text: &str) -> Value {
    let is_assigned = text
        .split_once(['=', ':'])
        .is_some_and(|(name, rest)| is_secret(name) && !rest.starts_with("//"));
    let in_address = text.split_once("://").is_some_and(|(_, rest)| {
        let host = rest.split(['/', '?', '#']).next();
        host.is_some_and(|host| host.contains('@'))
    });
    if is_assigned || in_address || text.contains("-----BEGIN") {
        return HIDDEN.into();
    }
    cut(text).into()
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
                "Pem": "-----BEGIN PRIVATE KEY-----\nhunter2",
                "GlobalAuthFile": "/etc/auth.json",
                "DecryptionKeysPath": "/etc/crio/keys/",
                "UserNamespaces": true,
            },
        });
        let told = text(&config).unwrap();
        assert!(!told.contains("hunter2"), "{told}");
        for shown in [
            "endpoint = [\"(hidden)\", \"https://host\"]",
            "Options = [\"(hidden)\", \"(hidden)\", \"size=1\"]",
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
