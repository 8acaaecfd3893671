//! Rules for ConfigMaps, Secrets and RuntimeClasses.

use std::collections::BTreeSet;

use super::super::names;
use super::super::place::Place;
use super::container;

/// The size limit of all values of an object, in bytes.
const MOST_DATA: usize = 1 << 20;

/// Checks a ConfigMap, Secret or RuntimeClass.
pub(super) fn check(kind: &str, object: &Place<'_>) {
    let metadata = object.at("metadata");
    metadata.at("name").must(names::subdomain);
    metadata.at("namespace").may(names::label);
    super::meta::keys(&metadata);
    if kind == "RuntimeClass" {
        object.at("handler").must(names::label);
        for (name, amount) in object.at("overhead").at("podFixed").entries() {
            container::amount(name, &amount);
        }
        let scheduling = object.at("scheduling");
        for (key, value) in scheduling.at("nodeSelector").entries() {
            if let Err(why) = names::qualified(key) {
                value.wrong(format!("the key {key:?} {why}"));
            }
        }
        super::tolerations::check(&scheduling.at("tolerations"));
        return;
    }
    let mut seen = BTreeSet::new();
    let mut size = 0;
    // `stringData` overrides `data` of a Secret, as on an API server.
    for field in ["data", "binaryData"] {
        for (key, value) in object.at(field).entries() {
            if let Err(why) = names::data_key(key) {
                value.wrong(format!("the key {key:?} {why}"));
            }
            if !seen.insert(key) {
                value.wrong(format!("the key {key:?} is also in data"));
            }
            size += value.text().len();
        }
    }
    for (key, value) in object.at("stringData").entries() {
        if let Err(why) = names::data_key(key) {
            value.wrong(format!("the key {key:?} {why}"));
        }
        size += value.text().len();
    }
    // Base64 uses four characters for three bytes.
    if size > MOST_DATA * 4 / 3 {
        object.at("data").wrong(format!(
            "{size} bytes are more than the limit of {MOST_DATA}"
        ));
    }
}
