//! Conversion of JSON to messages. Field names are accepted as in the interface (`log_path`), in camelCase and in any
//! case; numbers also as text; enum values by name or number.

use std::collections::HashMap;

use prost::Name;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::Value as Json;

use super::descriptors;

/// JSON that does not match the message.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{path}`: expected {expected}, found {found}")]
pub struct JsonError {
    path: String,
    expected: String,
    found: String,
}

/// Parses a message from JSON. Paths of unknown fields are added to `unknown`; the caller decides whether they are an
/// error.
pub fn read<T: Name + Default>(json: &Json, unknown: &mut Vec<String>) -> Result<T, JsonError> {
    let dynamic = Reader { unknown }.message(&descriptors::of::<T>(), json, "")?;
    #[allow(
        clippy::expect_used,
        reason = "encoding and decoding share one definition"
    )]
    Ok(dynamic
        .transcode_to()
        .expect("a message decodes by the descriptor it was generated from"))
}

struct Reader<'a> {
    unknown: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        json: &Json,
        path: &str,
    ) -> Result<DynamicMessage, JsonError> {
        let object = json
            .as_object()
            .ok_or_else(|| mismatch(path, "an object", json))?;
        let mut message = DynamicMessage::new(descriptor.clone());
        for (name, json) in object {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            match descriptor
                .fields()
                .find(|field| same_name(field.name(), name))
            {
                None => self.unknown.push(path),
                Some(_) if json.is_null() => {}
                Some(field) => {
                    let value = self.field(&field, json, &path)?;
                    message.set_field(&field, value);
                }
            }
        }
        Ok(message)
    }

    fn field(
        &mut self,
        field: &FieldDescriptor,
        json: &Json,
        path: &str,
    ) -> Result<Value, JsonError> {
        if field.is_map() {
            let object = json
                .as_object()
                .ok_or_else(|| mismatch(path, "an object", json))?;
            let mut entries = HashMap::with_capacity(object.len());
            for (key, json) in object {
                let text = json
                    .as_str()
                    .ok_or_else(|| mismatch(&format!("{path}.{key}"), "text", json))?;
                entries.insert(MapKey::String(key.clone()), Value::String(text.to_owned()));
            }
            Ok(Value::Map(entries))
        } else if field.is_list() {
            let array = json
                .as_array()
                .ok_or_else(|| mismatch(path, "a list", json))?;
            let values = array
                .iter()
                .enumerate()
                .map(|(index, json)| self.single(field, json, &format!("{path}[{index}]")));
            Ok(Value::List(values.collect::<Result<_, _>>()?))
        } else {
            self.single(field, json, path)
        }
    }

    fn single(
        &mut self,
        field: &FieldDescriptor,
        json: &Json,
        path: &str,
    ) -> Result<Value, JsonError> {
        Ok(match field.kind() {
            Kind::Message(descriptor) => Value::Message(self.message(&descriptor, json, path)?),
            Kind::String => match json {
                Json::String(text) => Value::String(text.clone()),
                _ => return Err(mismatch(path, "text", json)),
            },
            Kind::Bool => match json {
                Json::Bool(value) => Value::Bool(*value),
                _ => return Err(mismatch(path, "true or false", json)),
            },
            Kind::Bytes => Value::Bytes(bytes(field, json, path)?.into()),
            Kind::Enum(descriptor) => {
                let number = match json {
                    Json::String(name) => descriptor
                        .get_value_by_name(name)
                        .map(|value| value.number()),
                    _ => json.as_i64().and_then(|number| i32::try_from(number).ok()),
                };
                let expected = || {
                    let names: Vec<_> = descriptor
                        .values()
                        .map(|value| value.name().to_owned())
                        .collect();
                    format!("one of {}", names.join(", "))
                };
                Value::EnumNumber(number.ok_or_else(|| mismatch(path, expected(), json))?)
            }
            Kind::Double | Kind::Float => Value::F64(
                json.as_f64()
                    .ok_or_else(|| mismatch(path, "a number", json))?,
            ),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(integer(json, path)?),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(integer(json, path)?),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(integer(json, path)?),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(integer(json, path)?),
        })
    }
}

fn bytes(field: &FieldDescriptor, json: &Json, path: &str) -> Result<Vec<u8>, JsonError> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let text = json.as_str().ok_or_else(|| mismatch(path, "text", json))?;
    if descriptors::is_text(field) {
        return Ok(text.as_bytes().to_vec());
    }
    STANDARD
        .decode(text)
        .map_err(|_| mismatch(path, "base64", json))
}

/// Parses an integer of the field's width, also from text.
fn integer<N>(json: &Json, path: &str) -> Result<N, JsonError>
where
    N: TryFrom<i128>,
{
    let number = match json {
        Json::String(text) => text.trim().parse::<i128>().ok(),
        Json::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from)),
        _ => None,
    };
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| mismatch(path, "a whole number in the field's range", json))
}

/// Whether two spellings name the same field: `log_path`, `logPath` and `LogPath` do.
fn same_name(field: &str, given: &str) -> bool {
    let plain = |name: &str| {
        name.chars()
            .filter(|c| *c != '_')
            .flat_map(char::to_lowercase)
            .collect::<String>()
    };
    field == given || plain(field) == plain(given)
}

/// Builds a type error. It contains the kind of the value, never the value, which may be a secret.
fn mismatch(path: &str, expected: impl Into<String>, json: &Json) -> JsonError {
    let found = match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    JsonError {
        path: if path.is_empty() {
            "the whole document".to_owned()
        } else {
            path.to_owned()
        },
        expected: expected.into(),
        found: found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1::{ContainerConfig, NamespaceMode, PodSandboxConfig, Signal};

    #[test]
    fn a_pod_is_read_as_people_write_it() {
        let mut unknown = Vec::new();
        let config: PodSandboxConfig = read(
            &json!({
                "metadata": {"name": "web", "namespace": "default", "uid": "u", "attempt": 1},
                "log_directory": "/tmp",
                "portMappings": [{"container_port": 80, "host_port": 8080, "protocol": "UDP"}],
                "labels": {"app": "web"},
                "linux": {"security_context": {
                    "run_as_user": {"value": "1000"},
                    "namespace_options": {"network": 2, "pid": "CONTAINER"}
                }},
                "windows": null,
                "linuxx": {}
            }),
            &mut unknown,
        )
        .unwrap();
        assert_eq!(unknown, ["linuxx"]);
        assert_eq!(config.log_directory, "/tmp");
        assert_eq!(config.port_mappings[0].protocol, 1);
        let security = config.linux.unwrap().security_context.unwrap();
        assert_eq!(security.run_as_user.unwrap().value, 1000);
        assert_eq!(
            security.namespace_options.unwrap().network,
            NamespaceMode::Node as i32
        );
    }

    #[test]
    fn a_container_has_plain_text_for_environment_values() {
        let mut unknown = Vec::new();
        let config: ContainerConfig = read(
            &json!({
                "envs": [{"key": "A", "value": "plain"}],
                "CDI_devices": [{"name": "a.b/c=d"}],
                "stopSignal": "SIGINT"
            }),
            &mut unknown,
        )
        .unwrap();
        assert_eq!(&config.envs[0].value[..], b"plain");
        assert_eq!(config.cdi_devices[0].name, "a.b/c=d");
        assert_eq!(config.stop_signal(), Signal::Sigint);
        assert!(unknown.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_path_and_without_its_value() {
        let error = |json: Json| {
            read::<ContainerConfig>(&json, &mut Vec::new())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error(json!({"envs": [{"key": "A", "value": 7}]})),
            "cannot read `envs[0].value`: expected text, found a number"
        );
        assert_eq!(
            error(json!({"metadata": {"attempt": -1}})),
            "cannot read `metadata.attempt`: expected a whole number in the field's range, \
             found a number"
        );
        assert!(error(json!({"stop_signal": "KILL"})).contains("one of RUNTIME_DEFAULT"));
        assert!(error(json!([])).contains("expected an object, found a list"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let config = ContainerConfig {
            image: Some(crate::v1::ImageSpec {
                image: "busybox".into(),
                ..Default::default()
            }),
            args: vec!["sleep".into(), "1".into()],
            tty: true,
            ..Default::default()
        };
        let json = super::super::to_value(&config);
        assert_eq!(
            read::<ContainerConfig>(&json, &mut Vec::new()).unwrap(),
            config
        );
    }
}
