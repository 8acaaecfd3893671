//! Conversion of messages to JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Name;
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, ReflectMessage, Value};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::descriptors;

/// A view of a message that serializes as JSON with its fields in the order of the interface.
pub struct JsonView(DynamicMessage);

/// Creates a serializable view of a message.
pub fn view<T: Name>(message: &T) -> JsonView {
    let mut dynamic = DynamicMessage::new(descriptors::of::<T>());
    #[allow(
        clippy::expect_used,
        reason = "encoding and decoding share one definition"
    )]
    dynamic
        .transcode_from(message)
        .expect("a message decodes by the descriptor it was generated from");
    JsonView(dynamic)
}

/// Converts a message to a JSON value, with its fields in alphabetical order.
pub fn to_value<T: Name>(message: &T) -> serde_json::Value {
    #[allow(
        clippy::expect_used,
        reason = "all keys are strings, and nothing else can fail"
    )]
    serde_json::to_value(view(message)).expect("a message has only text for keys")
}

impl Serialize for JsonView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        MessageView(&self.0).serialize(serializer)
    }
}

struct MessageView<'a>(&'a DynamicMessage);

impl Serialize for MessageView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.0.descriptor();
        let mut fields: Vec<_> = descriptor
            .fields()
            .filter(|field| !field.supports_presence() || self.0.has_field(field))
            .collect();
        fields.sort_by_key(|field| field.path().last().copied());
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for field in &fields {
            let value = self.0.get_field(field);
            map.serialize_entry(
                field.json_name(),
                &FieldView {
                    field,
                    value: &value,
                },
            )?;
        }
        map.end()
    }
}

/// The value of a field, or of one of its entries.
struct FieldView<'a> {
    field: &'a FieldDescriptor,
    value: &'a Value,
}

impl Serialize for FieldView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::U32(value) => serializer.serialize_u32(*value),
            Value::I64(value) => serializer.collect_str(value),
            Value::U64(value) => serializer.collect_str(value),
            Value::F32(value) => real(f64::from(*value), serializer),
            Value::F64(value) => real(*value, serializer),
            Value::String(value) => serializer.serialize_str(value),
            Value::Bytes(value) if descriptors::is_text(self.field) => {
                serializer.serialize_str(&String::from_utf8_lossy(value))
            }
            Value::Bytes(value) => serializer.serialize_str(&STANDARD.encode(value)),
            Value::EnumNumber(number) => match self.field.kind() {
                Kind::Enum(descriptor) => enumerator(&descriptor, *number, serializer),
                _ => serializer.serialize_i32(*number),
            },
            Value::Message(message) => MessageView(message).serialize(serializer),
            Value::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&FieldView {
                        field: self.field,
                        value,
                    })?;
                }
                list.end()
            }
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| (key.as_str().unwrap_or_default(), value))
                    .collect();
                sorted.sort_by_key(|(key, _)| *key);
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                for (key, value) in sorted {
                    map.serialize_entry(
                        key,
                        &FieldView {
                            field: self.field,
                            value,
                        },
                    )?;
                }
                map.end()
            }
        }
    }
}

fn enumerator<S: Serializer>(
    descriptor: &EnumDescriptor,
    number: i32,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match descriptor.get_value(number) {
        Some(value) => serializer.serialize_str(value.name()),
        None => serializer.serialize_i32(number),
    }
}

/// Serializes a floating-point number; an integral one without a fraction, as the reference prints it.
fn real<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if !value.is_finite() {
        let name = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        serializer.serialize_str(name)
    } else if value.fract() == 0.0 && value.abs() < 1e15 {
        serializer.serialize_i64(value as i64)
    } else {
        serializer.serialize_f64(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::v1;

    #[test]
    fn a_message_is_printed_as_cri_tools_print_it() {
        let pod = v1::PodSandbox {
            id: "p1".into(),
            metadata: Some(v1::PodSandboxMetadata {
                name: "web".into(),
                attempt: 2,
                ..Default::default()
            }),
            state: v1::PodSandboxState::SandboxNotready as i32,
            created_at: 1_700_000_000_000_000_000,
            labels: HashMap::from([("b".into(), "2".into()), ("a".into(), "1".into())]),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&view(&pod)).unwrap(),
            r#"{"id":"p1","metadata":{"name":"web","uid":"","namespace":"","attempt":2},"#
                .to_owned()
                + r#""state":"SANDBOX_NOTREADY","createdAt":"1700000000000000000","#
                + r#""labels":{"a":"1","b":"2"},"annotations":{},"runtimeHandler":""}"#
        );
    }

    #[test]
    fn fields_come_in_the_order_of_the_interface_not_of_their_numbers() {
        let context = v1::LinuxSandboxSecurityContext::default();
        let text = serde_json::to_string(&view(&context)).unwrap();
        let position = |name: &str| text.find(name).unwrap();
        assert!(
            position("supplementalGroupsPolicy") < position("privileged"),
            "{text}"
        );
        assert!(
            !text.contains("runAsUser"),
            "an absent message is not printed: {text}"
        );
    }

    #[test]
    fn unknown_enum_numbers_and_whole_reals_are_numbers() {
        let status = v1::ContainerStatus {
            state: 77,
            ..Default::default()
        };
        assert_eq!(to_value(&status)["state"], 77);
        let psi = v1::PsiData {
            avg10: 2.0,
            avg60: 0.25,
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&view(&psi)).unwrap(),
            r#"{"Total":"0","Avg10":2,"Avg60":0.25,"Avg300":0}"#
        );
    }
}
