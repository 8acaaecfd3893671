//! JSON schemas (draft 2020-12) of messages, as CRI tools print them: the input of [`read`](super::read), with the
//! names of the interface.

use std::collections::BTreeMap;

use prost::Name;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::descriptors;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The schema id prefix of the reference implementation.
const HOME: &str = "https://k8s.io/cri-api/pkg/apis/runtime/v1";

/// The schema of a message, ready to be serialized with fields in the order of the interface.
pub struct JsonSchema {
    root: MessageDescriptor,
    /// All messages that the schema contains, itself included, in alphabetical order.
    messages: BTreeMap<String, MessageDescriptor>,
}

/// Returns the schema of a message type.
pub fn schema<T: Name>() -> JsonSchema {
    let root = descriptors::of::<T>();
    let mut messages = BTreeMap::new();
    collect(&root, &mut messages);
    JsonSchema { root, messages }
}

fn collect(message: &MessageDescriptor, all: &mut BTreeMap<String, MessageDescriptor>) {
    if all
        .insert(message.name().to_owned(), message.clone())
        .is_some()
    {
        return;
    }
    for field in message.fields().filter(|field| !field.is_map()) {
        if let Kind::Message(below) = field.kind() {
            collect(&below, all);
        }
    }
}

impl Serialize for JsonSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.root.name();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("$schema", DIALECT)?;
        map.serialize_entry("$id", &format!("{HOME}/{}", dashed(name)))?;
        map.serialize_entry("$ref", &reference(name))?;
        map.serialize_entry("$defs", &Definitions(&self.messages))?;
        map.end()
    }
}

struct Definitions<'a>(&'a BTreeMap<String, MessageDescriptor>);

impl Serialize for Definitions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, of)| (name, Definition(of))))
    }
}

struct Definition<'a>(&'a MessageDescriptor);

impl Serialize for Definition<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("properties", &Properties(self.0))?;
        map.serialize_entry("additionalProperties", &false)?;
        map.serialize_entry("type", "object")?;
        map.end()
    }
}

struct Properties<'a>(&'a MessageDescriptor);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields: Vec<FieldDescriptor> = self.0.fields().collect();
        fields.sort_by_key(|field| field.path().last().copied());
        let named = fields
            .iter()
            .map(|field| (field.name().to_owned(), property(field)));
        serializer.collect_map(named)
    }
}

fn property(field: &FieldDescriptor) -> Value {
    if field.is_map() {
        // All maps of the interface map text to text.
        return json!({"additionalProperties": {"type": "string"}, "type": "object"});
    }
    let single = match field.kind() {
        Kind::Message(message) => json!({"$ref": reference(message.name())}),
        Kind::Enum(_) => json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Double | Kind::Float => json!({"type": "number"}),
        Kind::Bytes if !descriptors::is_text(field) => {
            json!({"type": "string", "contentEncoding": "base64"})
        }
        Kind::String | Kind::Bytes => json!({"type": "string"}),
        _ => json!({"type": "integer"}),
    };
    if field.is_list() {
        json!({"items": single, "type": "array"})
    } else {
        single
    }
}

fn reference(name: &str) -> String {
    format!("#/$defs/{name}")
}

/// Converts a name such as `PodSandboxConfig` to `pod-sandbox-config`.
fn dashed(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    #[test]
    fn a_schema_says_what_a_configuration_may_hold() {
        let schema = serde_json::to_value(schema::<v1::ContainerConfig>()).unwrap();
        assert_eq!(schema["$id"], format!("{HOME}/container-config"));
        assert_eq!(schema["$ref"], "#/$defs/ContainerConfig");
        let config = &schema["$defs"]["ContainerConfig"];
        assert_eq!(config["additionalProperties"], false);
        assert_eq!(
            config["properties"]["mounts"],
            json!({"items": {"$ref": "#/$defs/Mount"}, "type": "array"})
        );
        assert_eq!(
            config["properties"]["labels"],
            json!({"additionalProperties": {"type": "string"}, "type": "object"})
        );
        let mount = &schema["$defs"]["Mount"]["properties"];
        assert_eq!(mount["readonly"]["type"], "boolean");
        assert_eq!(
            mount["propagation"],
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]})
        );
        assert_eq!(
            schema["$defs"]["KeyValue"]["properties"]["value"],
            json!({"type": "string"}),
            "values are plain text in configurations"
        );
        assert!(schema["$defs"].get("LabelsEntry").is_none(), "{schema}");
    }

    #[test]
    fn fields_come_in_the_order_of_the_interface() {
        let text = serde_json::to_string(&schema::<v1::PodSandboxConfig>()).unwrap();
        let position = |name: &str| text.find(&format!("\"{name}\":")).unwrap();
        assert!(position("$schema") < position("$defs"), "{text}");
        assert!(position("log_directory") < position("dns_config"), "{text}");
    }
}
