//! Rules for names, labels and annotations.

use super::super::names;
use super::super::place::Place;

/// The size limit of all annotations of an object, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// Checks the names, labels and annotations of a pod.
pub(super) fn check(metadata: &Place<'_>) {
    metadata.at("name").must(names::subdomain);
    metadata.at("namespace").must(names::label);
    keys(metadata);
    if metadata.at("generateName").is_there() {
        metadata
            .at("generateName")
            .doubt("has no effect on a standalone node; set metadata.name");
    }
    for field in ["ownerReferences", "finalizers"] {
        if metadata.at(field).is_there() {
            metadata.at(field).doubt("has no effect without a cluster");
        }
    }
}

/// Checks labels and annotations.
pub(super) fn keys(metadata: &Place<'_>) {
    for (key, place) in metadata.at("labels").entries() {
        if let Err(why) = names::qualified(key) {
            place.wrong(format!("the key {key:?} {why}"));
        }
        place.may(names::label_value);
    }
    let mut size = 0;
    for (key, place) in metadata.at("annotations").entries() {
        if let Err(why) = names::qualified(&key.to_ascii_lowercase()) {
            place.wrong(format!("the key {key:?} {why}"));
        }
        size += key.len() + place.text().len();
    }
    if size > MOST_ANNOTATIONS {
        let text = format!("{size} bytes are more than the limit of {MOST_ANNOTATIONS}");
        metadata.at("annotations").wrong(text);
    }
}
