//! The RuntimeClass's additions to a pod, as in the API server's admission.

use std::sync::Arc;

use orlop_kubelet_rules::pod::Pod;
use serde_json::{Value, json};

use super::PodInput;
use super::objects::RuntimeClass;

impl PodInput {
    /// Returns the pod with the overhead of its RuntimeClass, unless it has its own, and with the
    /// class's node selector.
    pub fn with_class(&self) -> Arc<Pod> {
        match self.class() {
            Some(class) if !(class.overhead.is_empty() && class.node_selector.is_empty()) => {
                let mut pod = (*self.pod).clone();
                if pod.spec.overhead.is_empty() {
                    pod.spec.overhead.clone_from(&class.overhead);
                }
                pod.spec.node_selector.extend(class.node_selector.clone());
                Arc::new(pod)
            }
            _ => self.pod.clone(),
        }
    }

    /// Returns the manifest with everything its RuntimeClass adds. The pod's own values take
    /// precedence.
    pub fn manifest_with_class(&self) -> Arc<Value> {
        let Some(class) = self.class().filter(|class| class.adds()) else {
            return self.manifest.clone();
        };
        let mut manifest = (*self.manifest).clone();
        let spec = &mut manifest["spec"];
        if self.pod.spec.overhead.is_empty() && !class.overhead.is_empty() {
            let amounts = class.overhead.iter();
            let amounts = amounts.map(|(name, amount)| (name.clone(), json!(amount.to_string())));
            spec["overhead"] = amounts.collect();
        }
        if !class.node_selector.is_empty() {
            let mut both = class.node_selector.clone();
            both.extend(self.pod.spec.node_selector.clone());
            spec["nodeSelector"] = json!(both);
        }
        if !class.tolerations.is_empty() {
            let own = spec["tolerations"].as_array();
            let all = own.into_iter().flatten().chain(&class.tolerations);
            spec["tolerations"] = merged(all.cloned().collect()).into();
        }
        Arc::new(manifest)
    }

    fn class(&self) -> Option<&RuntimeClass> {
        let name = self.pod.spec.runtime_class_name.as_deref()?;
        self.objects.runtime_class(name)
    }
}

impl RuntimeClass {
    fn adds(&self) -> bool {
        let Self {
            handler: _,
            overhead,
            node_selector,
            tolerations,
        } = self;
        !(overhead.is_empty() && node_selector.is_empty() && tolerations.is_empty())
    }
}

/// Removes tolerations that others cover.
fn merged(all: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|other| covers(other, one));
        // Of equal tolerations, the first stays.
        let mut later = all[place + 1..].iter();
        if !is_covered && !later.any(|other| covers(other, one) && !covers(one, other)) {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether `other` tolerates everything that `one` does.
fn covers(other: &Value, one: &Value) -> bool {
    let word =
        |toleration: &Value, field| toleration[field].as_str().unwrap_or_default().to_owned();
    let exists = |toleration: &Value| word(toleration, "operator") == "Exists";
    let is_any_key = word(other, "key").is_empty() && exists(other);
    let effect = word(other, "effect");
    // Without `tolerationSeconds`, it lasts forever.
    let lasts = match (&other["tolerationSeconds"], &one["tolerationSeconds"]) {
        (Value::Null, _) => true,
        (_, Value::Null) => false,
        (other, one) => one.as_i64() <= other.as_i64(),
    };
    let is_equal = |field| word(other, field) == word(one, field);
    let equals = |toleration: &Value| matches!(&*word(toleration, "operator"), "" | "Equal");
    (is_any_key || is_equal("key"))
        && (effect.is_empty() || is_equal("effect"))
        && lasts
        && (exists(other)
            || (equals(other) && equals(one) && is_equal("value"))
            || (is_equal("operator") && is_equal("value")))
}

#[cfg(test)]
mod tests {
    use super::super::objects::Objects;
    use super::*;

    fn input(spec: Value, class: &Value) -> PodInput {
        let mut objects = Objects::default();
        let mut object =
            json!({"kind": "RuntimeClass", "metadata": {"name": "guest"}, "handler": "kata"});
        object["overhead"] = class["overhead"].clone();
        object["scheduling"] = class["scheduling"].clone();
        objects.add(&object).expect("a class");
        let mut manifest = json!({"metadata": {"name": "a", "uid": "1"}});
        manifest["spec"] = spec;
        PodInput::new("file", manifest, Arc::new(objects)).expect("a pod")
    }

    #[test]
    fn a_class_adds_to_the_manifest_what_the_pod_does_not_say() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "0.25", "memory": "64Mi"}},
            "scheduling": {
                "nodeSelector": {"zone": "a", "guests": "yes"},
                "tolerations": [{"key": "guests", "operator": "Exists", "effect": "NoSchedule"}],
            },
        });
        let spec = json!({
            "runtimeClassName": "guest",
            "containers": [],
            "nodeSelector": {"zone": "b"},
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        });
        let shown = input(spec.clone(), &class).manifest_with_class();
        assert_eq!(
            shown["spec"]["overhead"],
            json!({"cpu": "250m", "memory": "64Mi"})
        );
        assert_eq!(
            shown["spec"]["nodeSelector"],
            json!({"zone": "b", "guests": "yes"})
        );
        let tolerations = json!([
            {"operator": "Exists", "effect": "NoExecute"},
            {"key": "guests", "operator": "Exists", "effect": "NoSchedule"},
        ]);
        assert_eq!(shown["spec"]["tolerations"], tolerations);
        let own = json!({"runtimeClassName": "guest", "containers": [], "overhead": {"cpu": "1"}});
        let shown = input(own, &class).manifest_with_class();
        assert_eq!(shown["spec"]["overhead"], json!({"cpu": "1"}));
        // A RuntimeClass that adds nothing, and no RuntimeClass.
        let without = |spec: Value, class: &Value| {
            let input = input(spec, class);
            assert!(Arc::ptr_eq(&input.manifest, &input.manifest_with_class()));
        };
        without(spec, &json!({}));
        without(json!({"containers": []}), &class);
    }

    #[test]
    fn a_toleration_that_another_covers_is_left_out() {
        let any = json!({"operator": "Exists"});
        let no_execute = json!({"operator": "Exists", "effect": "NoExecute"});
        let minute = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60});
        let hour = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600});
        let value = json!({"key": "a", "value": "x"});
        let value_too = json!({"key": "a", "operator": "Equal", "value": "x"});
        let other_value = json!({"key": "a", "operator": "Equal", "value": "y"});
        let key = json!({"key": "a", "operator": "Exists"});
        let more = json!({"key": "a", "operator": "Gt", "value": "5"});
        for (all, kept) in [
            (vec![&no_execute, &any], vec![&any]),
            (vec![&any, &no_execute], vec![&any]),
            (vec![&minute, &hour], vec![&hour]),
            (vec![&minute, &no_execute], vec![&no_execute]),
            (vec![&value, &value_too], vec![&value]),
            (vec![&value, &other_value], vec![&value, &other_value]),
            (vec![&value, &key, &other_value], vec![&key]),
            (vec![&no_execute, &key], vec![&no_execute, &key]),
            (vec![&more, &more, &value], vec![&more, &value]),
            (vec![&more, &key], vec![&key]),
        ] {
            let given: Vec<Value> = all.into_iter().cloned().collect();
            let kept: Vec<Value> = kept.into_iter().cloned().collect();
            assert_eq!(merged(given.clone()), kept, "{given:?}");
        }
    }
}
