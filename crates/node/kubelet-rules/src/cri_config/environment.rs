//! Environment variables of containers.

use std::collections::BTreeMap;

use super::env_file::{EnvFiles, value_of};
use super::{NodeFacts, expand, field, resource_field};
use crate::pod::{Container, EnvSource, KeyRef, Pod};

/// Access to ConfigMaps and Secrets by name, for environment variables.
pub trait Values {
    /// Returns the values of a ConfigMap in the pod's namespace.
    fn config_map(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>>;
    /// Returns the values of a Secret in the pod's namespace.
    fn secret(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>>;
}

/// Builds a container's environment: first `envFrom`, then each variable of `env`, which can refer
/// to earlier ones. A missing value that is not optional is an error. `files` are the environment
/// files.
pub fn environment(
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
    values: &dyn Values,
    files: &EnvFiles,
) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for from in &container.env_from {
        let sources = [
            ("configmap", &from.config_map_ref),
            ("secret", &from.secret_ref),
        ];
        for (kind, reference) in sources {
            let Some(reference) = reference else { continue };
            let found = match kind {
                "configmap" => values.config_map(&reference.name),
                _ => values.secret(&reference.name),
            };
            match found {
                Some(map) => {
                    for (key, value) in map {
                        let name = format!("{}{key}", from.prefix);
                        if is_variable_name(&name) {
                            let value = String::from_utf8_lossy(value).into_owned();
                            variables.insert(name, value);
                        }
                    }
                }
                None if reference.optional => {}
                None => return Err(not_found(kind, &reference.name)),
            }
        }
    }
    for variable in &container.env {
        let value = match &variable.value_from {
            None => Some(expand(&variable.value, &variables)),
            Some(source) => match &source.file_key_ref {
                Some(reference) => value_of(files, reference)?,
                None => from_elsewhere(pod, container, facts, values, source)?,
            },
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    Ok(variables)
}

fn from_elsewhere(
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
    values: &dyn Values,
    source: &EnvSource,
) -> Result<Option<String>, String> {
    if let Some(reference) = &source.field_ref {
        return field(pod, facts, reference).map(Some);
    }
    if let Some(reference) = &source.resource_field_ref {
        return resource_field(pod, Some(container), facts, reference).map(Some);
    }
    if let Some(reference) = &source.config_map_key_ref {
        return key("configmap", values.config_map(&reference.name), reference);
    }
    if let Some(reference) = &source.secret_key_ref {
        return key("secret", values.secret(&reference.name), reference);
    }
    Err("valueFrom of a variable has no supported source".to_owned())
}

fn key(
    kind: &str,
    map: Option<&BTreeMap<String, Vec<u8>>>,
    reference: &KeyRef,
) -> Result<Option<String>, String> {
    let Some(map) = map else {
        return if reference.optional {
            Ok(None)
        } else {
            Err(not_found(kind, &reference.name))
        };
    };
    match map.get(&reference.key) {
        Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        None if reference.optional => Ok(None),
        None => Err(format!(
            "couldn't find key {} in {kind} {}",
            reference.key, reference.name
        )),
    }
}

fn not_found(kind: &str, name: &str) -> String {
    format!("{kind} {name:?} not found; define it in the same manifest source as the pod")
}

/// Kubernetes accepts any printable name without `=`; other keys are skipped.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '=')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Given(BTreeMap<String, BTreeMap<String, Vec<u8>>>);

    impl Values for Given {
        fn config_map(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
            self.0.get(name)
        }
        fn secret(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
            self.0.get(name)
        }
    }

    #[test]
    fn variables_come_in_order_and_the_last_wins() {
        let values = Given(BTreeMap::from([(
            "m".to_owned(),
            BTreeMap::from([
                ("A".to_owned(), b"a".to_vec()),
                ("B".to_owned(), b"b".to_vec()),
            ]),
        )]));
        let rows = [
            // container → variables, or the error
            (
                json!({"envFrom": [{"configMapRef": {"name": "m"}, "prefix": "P_"}]}),
                Ok("P_A=a P_B=b"),
            ),
            (
                json!({"envFrom": [{"secretRef": {"name": "m"}}],
                       "env": [{"name": "A", "value": "own $(B) $(C)"}, {"name": "C", "value": "c"}]}),
                Ok("A=own b $(C) B=b C=c"),
            ),
            (
                json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "A"}}},
                               {"name": "Y", "value": "$(X)!"}]}),
                Ok("X=a Y=a!"),
            ),
            (
                json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "m", "key": "no", "optional": true}}}]}),
                Ok(""),
            ),
            (
                json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "m", "key": "no"}}}]}),
                Err("couldn't find key no in secret m"),
            ),
            (
                json!({"envFrom": [{"configMapRef": {"name": "none"}}]}),
                Err(
                    "configmap \"none\" not found; define it in the same manifest source as the \
                     pod",
                ),
            ),
            (
                json!({"envFrom": [{"configMapRef": {"name": "none", "optional": true}}]}),
                Ok(""),
            ),
            (
                json!({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
                Ok("N=p"),
            ),
            (
                json!({"env": [{"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "K"}}},
                               {"name": "G", "value": "<$(F)>"}]}),
                Ok("F=from a file G=<from a file>"),
            ),
            (
                json!({"env": [{"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "none", "key": "K", "optional": true}}}]}),
                Ok(""),
            ),
        ];
        let files = EnvFiles::from([(
            ("v".to_owned(), "e".to_owned()),
            Ok(Some("K='from a file'".to_owned())),
        )]);
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        for (container, wanted) in rows {
            let parsed: Container = serde_json::from_value(container.clone()).unwrap();
            let got =
                environment(&pod, &parsed, &NodeFacts::default(), &values, &files).map(|map| {
                    let pairs: Vec<_> = map.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    pairs.join(" ")
                });
            assert_eq!(
                got.as_deref().map_err(String::as_str),
                wanted,
                "{container}"
            );
        }
    }
}
