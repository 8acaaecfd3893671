//! The compiled interface against the facts it is written from.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

#[test]
fn every_name_number_and_type_is_the_interfaces() {
    let facts: BTreeMap<String, String> = facts();
    let compiled = compiled();
    for (name, fact) in &facts {
        assert_eq!(
            compiled.get(name),
            Some(fact),
            "{name} differs from facts.txt"
        );
    }
    for name in compiled.keys() {
        assert!(facts.contains_key(name), "{name} is not in facts.txt");
    }
}

#[test]
fn all_calls_are_there_and_have_a_name() {
    let compiled = compiled();
    let calls: Vec<&str> = ["service RuntimeService", "service ImageService"]
        .iter()
        .flat_map(|service| compiled[*service].split_whitespace())
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .collect();
    let named: Vec<&str> = orlop_cri_api::Rpc::ALL
        .iter()
        .map(|rpc| rpc.name())
        .collect();
    assert_eq!(calls, named);
    assert_eq!(calls.len(), 43);
}

/// `kind Name` → the rest of the fact, white space evened out.
fn facts() -> BTreeMap<String, String> {
    let text = include_str!("../proto/facts.txt");
    let mut facts = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with(' ') {
            let fact: &mut String = facts
                .get_mut(&last)
                .expect("a service stands above its calls");
            fact.push(' ');
            fact.push_str(&words.join(" "));
        } else {
            last = words[..2].join(" ");
            facts.insert(last.clone(), words[2..].join(" "));
        }
    }
    for fact in facts.values_mut() {
        *fact = fact.trim().to_owned();
    }
    facts
}

fn compiled() -> BTreeMap<String, String> {
    let encoded = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    let pool = DescriptorPool::decode(&encoded[..]).unwrap();
    let mut compiled = BTreeMap::new();
    for message in pool.all_messages() {
        if message.package_name() == "runtime.v1" && !message.is_map_entry() {
            compiled.insert(
                format!("message {}", short(message.full_name())),
                fields(&message),
            );
        }
    }
    for enumeration in pool.all_enums() {
        if enumeration.package_name() == "runtime.v1" {
            compiled.insert(
                format!("enum {}", short(enumeration.full_name())),
                values(&enumeration),
            );
        }
    }
    for service in pool
        .services()
        .filter(|service| service.package_name() == "runtime.v1")
    {
        let calls: Vec<String> = service
            .methods()
            .map(|method| {
                let stream = if method.is_server_streaming() {
                    "stream "
                } else {
                    ""
                };
                assert!(!method.is_client_streaming());
                format!(
                    "{}({}) {stream}{}",
                    method.name(),
                    method.input().name(),
                    method.output().name()
                )
            })
            .collect();
        compiled.insert(format!("service {}", service.name()), calls.join(" "));
    }
    compiled
}

fn fields(message: &MessageDescriptor) -> String {
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by_key(|field| field.path().last().copied());
    let facts: Vec<String> = fields
        .iter()
        .map(|field| format!("{}:{}:{}", field.name(), field.number(), kind(field)))
        .collect();
    facts.join(" ")
}

fn kind(field: &FieldDescriptor) -> String {
    if field.is_map() {
        return "map".to_owned();
    }
    let name = match field.kind() {
        Kind::Message(message) => short(message.full_name()),
        Kind::Enum(enumeration) => {
            // A nested enum is written by its own name within its message.
            short(enumeration.full_name())
                .rsplit('.')
                .next()
                .unwrap_or_default()
                .to_owned()
        }
        other => format!("{other:?}").to_lowercase(),
    };
    if field.is_list() {
        format!("*{name}")
    } else {
        name
    }
}

fn values(enumeration: &EnumDescriptor) -> String {
    let facts: Vec<String> = enumeration
        .values()
        .map(|value| format!("{}:{}", value.name(), value.number()))
        .collect();
    facts.join(" ")
}

fn short(name: &str) -> String {
    name.trim_start_matches("runtime.v1.").to_owned()
}
