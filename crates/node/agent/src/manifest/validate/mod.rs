//! Validation of objects, by the rules of the API server.

mod container;
mod meta;
mod pod;
mod probe;
mod security;
mod tolerations;
mod values;
mod volume;

use std::cell::RefCell;

use serde_json::Value;

use super::place::{Place, Verdict};

/// Validates a pod with its defaults set.
pub(super) fn pod(pod: &Value) -> Verdict {
    let verdict = RefCell::default();
    let root = Place::root(pod, &verdict);
    meta::check(&root.at("metadata"));
    pod::check(&root.at("spec"));
    verdict.into_inner()
}

/// Validates a ConfigMap, Secret or RuntimeClass.
pub(super) fn values(kind: &str, object: &Value) -> Verdict {
    let verdict = RefCell::default();
    values::check(kind, &Place::root(object, &verdict));
    verdict.into_inner()
}

#[cfg(test)]
mod tests;
