//! Bounded reading of JSON files, with error messages that name the path of the field.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result, While};

/// Maximum size of `config.json`, `process.json` and `state.json`.
const LIMIT: u64 = 16 << 20;

/// Reads a JSON file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = orlop_fs::read_file(path, LIMIT).doing(|| format!("reading {}", path.display()))?;
    parse(&text).map_err(|error| error.within(path.display()))
}

/// Reads a JSON file named by the caller, which may be a pipe such as `<(…)` of a shell.
pub(crate) fn read_given<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let file = std::fs::File::open(path).doing(|| format!("reading {}", path.display()))?;
    read_from(file, &path.display().to_string())
}

/// Reads JSON from a stream.
pub(crate) fn read_from<T: DeserializeOwned>(stream: impl std::io::Read, name: &str) -> Result<T> {
    let text = orlop_fs::read_whole(stream, LIMIT).doing(|| format!("reading {name}"))?;
    parse(&text).map_err(|error| error.within(name))
}

/// Parses JSON. Programs in Go write `null` for empty values.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    parse_part("", text)
}

/// Parses JSON from a part of a document; `place` is its path.
pub(crate) fn parse_part<T: DeserializeOwned>(place: &str, text: &[u8]) -> Result<T> {
    // Otherwise a list would be read as an object's fields in order.
    let is_object = text.trim_ascii_start().starts_with(b"{");
    let error = match understand(place, text) {
        Err(error) => error,
        Ok(understood) if is_object => return Ok(understood),
        Ok(_) => return Err(Error::new("expected a JSON object")),
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else {
        return Err(error);
    };
    if !is_object {
        return Err(Error::new("expected a JSON object"));
    }
    // Written and parsed again rather than deserialized directly, which would duplicate all the code.
    drop_nulls(&mut value);
    understand(place, value.to_string().as_bytes())
}

fn understand<T: DeserializeOwned>(place: &str, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let told = error.to_string();
        // The position is not needed, because the message names the field.
        let reason = told
            .rfind(" at line ")
            .map_or(told.as_str(), |at| &told[..at]);
        let path = path_at(text, error.line(), error.column());
        let joined = if place.is_empty() || path.is_empty() || path.starts_with('[') {
            [place, &path].concat()
        } else {
            [place, &path].join(".")
        };
        match joined {
            path if path.is_empty() || error.is_syntax() || error.is_eof() => Error::new(told),
            path => Error::new(format!("{path}: {reason}")),
        }
    })
}

/// Returns the path of a position in a JSON text, such as `linux.namespaces[1].type`.
fn path_at(text: &[u8], line: usize, column: usize) -> String {
    let before = text
        .split_inclusive(|&byte| byte == b'\n')
        .take(line.saturating_sub(1));
    let end = before.map(<[u8]>::len).sum::<usize>() + column;
    let text = &text[..end.min(text.len())];
    // The current field of each object, and the index of each array.
    let mut path: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let rest = &text[at..];
                let mut escaped = false;
                let length = rest.iter().position(|&byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                let Some(length) = length else { break };
                at += length + 1;
                let follows = text[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                if follows == Some(&b':')
                    && let Some(last) = path.last_mut()
                {
                    *last = format!(".{}", String::from_utf8_lossy(&rest[..length]));
                }
            }
            b'{' => path.push(String::new()),
            b'[' => path.push("[0]".to_owned()),
            // A bracket at the error position does not close its container.
            b'}' | b']' if at < text.len() => drop(path.pop()),
            b',' => {
                if let Some(last) = path.last_mut()
                    && let Some(place) = last.strip_prefix('[')
                {
                    let place: usize = place.trim_end_matches(']').parse().unwrap_or(0);
                    *last = format!("[{}]", place + 1);
                }
            }
            _ => {}
        }
    }
    path.concat().trim_start_matches('.').to_owned()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use orlop_oci_types::Spec;

    use super::*;

    #[test]
    fn what_go_leaves_empty_is_empty() {
        let text = br#"{"ociVersion":"1.0.2","mounts":null,"process":{"cwd":"/","user":{"additionalGids":null}}}"#;
        let spec: Spec = parse(text).unwrap();
        assert!(spec.mounts.is_empty());
    }

    #[test]
    fn a_mistake_is_told_by_its_path() {
        let text =
            br#"{"ociVersion":"1.0.2","linux":{"namespaces":[{"type":"pid"},{"type":"soul"}]}}"#;
        let error = parse::<Spec>(text).unwrap_err().to_string();
        assert!(
            error.starts_with("linux.namespaces[1].type: unknown variant `soul`"),
            "{error}"
        );
        let text = b"{\"process\":{\n\"args\":[\"a\",\"b: \\\"{\",7],\"cwd\":\"/\"}}";
        let error = parse::<Spec>(text).unwrap_err().to_string();
        assert!(
            error.starts_with("process.args[2]: invalid type"),
            "{error}"
        );
        let error = parse::<Spec>(b"{\"process\":{").unwrap_err().to_string();
        assert!(error.contains("EOF"), "{error}");
    }
}
