//! JSON that others wrote: bounded, and what is wrong in it told by its path.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result, While};

/// The most that is read of a `config.json`, `process.json` or `state.json`.
const LIMIT: u64 = 16 << 20;

/// Reads a file of JSON.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text =
        orlop_disk::read_file(path, LIMIT).doing(|| format!("reading {}", path.display()))?;
    parse(&text).map_err(|error| error.within(path.display()))
}

/// Reads what comes by a stream.
pub(crate) fn read_from<T: DeserializeOwned>(stream: impl std::io::Read, name: &str) -> Result<T> {
    let text = orlop_disk::read_whole(stream, LIMIT).doing(|| format!("reading {name}"))?;
    parse(&text).map_err(|error| error.within(name))
}

/// Understands JSON. Programs in Go write `null` for what is empty.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let error = match understand(text) {
        Err(error) => error,
        understood => return understood,
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else {
        return Err(error);
    };
    // Written and read again rather than understood as it is: that would be all of the code once more.
    drop_nulls(&mut value);
    understand(value.to_string().as_bytes())
}

fn understand<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let understood: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => Error::new(error.inner().to_string()),
            _ => Error::new(format!("{path}: {}", error.inner())),
        }
    })?;
    reader
        .end()
        .map(|()| understood)
        .map_err(|error| Error::new(error.to_string()))
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
    use orlop_oci::Spec;

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
    }
}
