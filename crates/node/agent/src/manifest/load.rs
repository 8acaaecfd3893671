//! Loads the documents of a text.

use orlop_yaml::{Content, Document, Node, Position, documents};
use serde_json::Value;

use super::place::Verdict;
use super::remark::{Remark, Weight};
use super::{defaults, expand, validate};
use crate::document::{KINDS, check};

/// The content of a text.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Valid pods, with defaults.
    pub(crate) pods: Vec<LoadedPod>,
    /// ConfigMaps, Secrets and RuntimeClasses.
    pub(crate) objects: Vec<Value>,
    /// The workloads that some of the pods were created from.
    pub(crate) makers: Vec<Maker>,
    /// Errors and warnings.
    pub(crate) remarks: Vec<Remark>,
}

/// A workload that pods are created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maker {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A pod in a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadedPod {
    /// The manifest, as JSON.
    pub(crate) manifest: Value,
    /// The line where its document begins.
    pub(crate) line: usize,
}

impl Loaded {
    /// Whether something in the text cannot be used.
    pub(crate) fn has_errors(&self) -> bool {
        self.remarks.iter().any(|it| it.weight == Weight::Error)
    }
}

/// Loads all objects of a text. A mistake in one does not affect the others.
pub(crate) fn load(origin: &str, text: &str) -> Loaded {
    let mut loader = Loader {
        origin,
        loaded: Loaded::default(),
    };
    for document in documents(text) {
        match document {
            Document::Good(node) => loader.object(&node),
            Document::Bad(at, why) => loader.remark(Weight::Error, at, "", why),
        }
    }
    loader.loaded
}

/// How a kind of object is loaded.
enum Kind {
    /// Loaded directly.
    Pod(&'static str),
    /// As a pod made from the object's pod template.
    Maker(&'static str),
    /// As a source of values for pods.
    Values(&'static str),
    /// As a list, item by item.
    List,
}

struct Loader<'o> {
    origin: &'o str,
    loaded: Loaded,
}

impl Loader<'_> {
    fn object(&mut self, node: &Node) {
        if !matches!(node.content, Content::Map(_)) {
            let text = format!(
                "an object must be a map with apiVersion and kind, not {}",
                node.what()
            );
            return self.remark(Weight::Error, node.at, "", text);
        }
        let text = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if version.is_empty() || kind.is_empty() {
            let text =
                "apiVersion and kind are missing; a pod has `apiVersion: v1` and `kind: Pod`";
            return self.remark(Weight::Error, node.at, "", text.to_owned());
        }
        let name = node
            .get("metadata")
            .and_then(|metadata| metadata.get("name"))
            .and_then(Node::text)
            .unwrap_or_default();
        let object = if name.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind} {name}")
        };
        match known(version, kind) {
            Ok(Kind::Pod(kind) | Kind::Maker(kind)) => self.pods(node, kind, &object),
            Ok(Kind::Values(kind)) => self.values(node, kind, &object),
            Ok(Kind::List) => self.list(node, kind, version),
            Err((weight, text)) => self.remark(weight, node.at, &object, text),
        }
    }

    /// Loads the items of a List, or of a PodList, whose items may omit their kind.
    fn list(&mut self, node: &Node, kind: &str, version: &str) {
        let item_kind = kind.strip_suffix("List").unwrap_or_default();
        let Some(Node {
            content: Content::List(items),
            ..
        }) = node.get("items")
        else {
            let text = "a list must have its objects in `items`".to_owned();
            return self.remark(Weight::Error, node.at, kind, text);
        };
        for item in items.iter() {
            if item.get("kind").is_some() || item_kind.is_empty() {
                self.object(item);
            } else {
                match known(version, item_kind) {
                    Ok(Kind::Pod(kind) | Kind::Maker(kind)) => self.pods(item, kind, kind),
                    Ok(Kind::Values(kind)) => self.values(item, kind, kind),
                    _ => {}
                }
            }
        }
    }

    fn pods(&mut self, node: &Node, kind: &'static str, object: &str) {
        let Some(value) = self.checked(node, kind, object) else {
            return;
        };
        let expanded = expand::pods(kind, &value);
        for text in expanded.reduced {
            self.remark(Weight::Warning, node.at, object, text);
        }
        if let Some(text) = expanded.wrong {
            return self.remark(Weight::Error, node.at, object, text);
        }
        if kind != "Pod" {
            let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
            let namespace = match text("namespace") {
                "" => "default",
                namespace => namespace,
            };
            self.loaded.makers.push(Maker {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: text("name").to_owned(),
            });
        }
        for (i, mut pod) in expanded.pods.into_iter().enumerate() {
            defaults::pod(&mut pod);
            let verdict = validate::pod(&pod);
            // A mistake that all replicas share is reported once.
            if i == 0 {
                self.remark_all(&verdict, node, expanded.template, object);
            }
            if verdict.errors.is_empty() {
                self.loaded.pods.push(LoadedPod {
                    manifest: pod,
                    line: node.at.line,
                });
            }
        }
    }

    fn values(&mut self, node: &Node, kind: &'static str, object: &str) {
        let Some(mut value) = self.checked(node, kind, object) else {
            return;
        };
        value["kind"] = kind.into();
        let verdict = validate::values(kind, &value);
        self.remark_all(&verdict, node, "", object);
        if verdict.errors.is_empty() {
            self.loaded.objects.push(value);
        }
    }

    fn remark_all(&mut self, verdict: &Verdict, node: &Node, template: &str, object: &str) {
        for (weight, said) in [
            (Weight::Warning, &verdict.warnings),
            (Weight::Error, &verdict.errors),
        ] {
            for (path, text) in said {
                let at = locate(node, template, path);
                self.remark(weight, at, object, format!("{path}: {text}"));
            }
        }
    }

    /// Returns the object as JSON, if all its fields are valid.
    fn checked(&mut self, node: &Node, kind: &'static str, object: &str) -> Option<Value> {
        let checked = check(&KINDS, kind, node);
        for unknown in checked.unknown {
            self.remark(Weight::Warning, unknown.at, object, unknown.text);
        }
        let good = checked.wrong.is_empty();
        for wrong in checked.wrong {
            let text = format!("{}: {}", wrong.path, wrong.text);
            self.remark(Weight::Error, wrong.at, object, text);
        }
        good.then_some(checked.value)
    }

    fn remark(&mut self, weight: Weight, at: Position, object: &str, text: String) {
        self.loaded.remarks.push(Remark {
            origin: self.origin.to_owned(),
            line: (at.line > 0).then_some(at.line),
            object: object.to_owned(),
            weight,
            text,
        });
    }
}

/// Decides how objects of a kind are loaded.
fn known(version: &str, kind: &str) -> Result<Kind, (Weight, String)> {
    let (found, expected) = match kind {
        "Pod" => (Kind::Pod("Pod"), "v1"),
        "PodList" | "List" | "ConfigMapList" | "SecretList" => (Kind::List, "v1"),
        "PodTemplate" => (Kind::Maker("PodTemplate"), "v1"),
        "ReplicationController" => (Kind::Maker("ReplicationController"), "v1"),
        "ReplicaSet" => (Kind::Maker("ReplicaSet"), "apps/v1"),
        "Deployment" => (Kind::Maker("Deployment"), "apps/v1"),
        "DaemonSet" => (Kind::Maker("DaemonSet"), "apps/v1"),
        "StatefulSet" => (Kind::Maker("StatefulSet"), "apps/v1"),
        "Job" => (Kind::Maker("Job"), "batch/v1"),
        "ConfigMap" => (Kind::Values("ConfigMap"), "v1"),
        "Secret" => (Kind::Values("Secret"), "v1"),
        "RuntimeClass" => (Kind::Values("RuntimeClass"), "node.k8s.io/v1"),
        "CronJob" => {
            let text = "a CronJob needs a controller, which a standalone node does not have; run a \
                        Job from the host's cron";
            return Err((Weight::Warning, text.to_owned()));
        }
        _ if is_slip(version, kind) => {
            let text = format!("unknown kind {kind:?} in {version}");
            return Err((Weight::Error, text));
        }
        _ => {
            let text =
                format!("skipped: a {kind} ({version}) has no effect on a node without a cluster");
            return Err((Weight::Warning, text));
        }
    };
    if version == expected {
        Ok(found)
    } else {
        let text = format!("a {kind} must have apiVersion {expected}, not {version}");
        Err((Weight::Error, text))
    }
}

/// Whether a kind does not exist in Kubernetes. Such a typo must not pass for a kind that a
/// standalone node ignores.
fn is_slip(version: &str, kind: &str) -> bool {
    let kinds: &[&str] = match version {
        "v1" => &[
            "Service",
            "Namespace",
            "PersistentVolumeClaim",
            "PersistentVolume",
            "ServiceAccount",
            "Endpoints",
            "LimitRange",
            "ResourceQuota",
            "Node",
            "Event",
            "Binding",
            "ComponentStatus",
        ],
        "apps/v1" => &["ControllerRevision"],
        "batch/v1" => &["CronJob"],
        // Other API groups can have any kind.
        _ => return false,
    };
    !kinds.contains(&kind)
}

/// Returns the position of the pod's field `path`, or of its closest existing parent.
fn locate(node: &Node, template: &str, path: &str) -> Position {
    let mut here = node;
    let steps = template
        .split('.')
        .chain(path.split('.'))
        .flat_map(|step| step.split('['))
        .filter(|step| !step.is_empty());
    for step in steps {
        let next = match step.strip_suffix(']') {
            None => here.get(step),
            Some(index) => match (&here.content, index.parse::<usize>()) {
                (Content::List(items), Ok(index)) => items.get(index),
                _ => here.get(index),
            },
        };
        match next {
            Some(next) => here = next,
            None => break,
        }
    }
    here.at
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: c, image: i}]}\n";

    fn remarks(text: &str) -> Vec<(usize, String)> {
        let loaded = load("f.yaml", text);
        let remarks = loaded.remarks.into_iter();
        remarks.map(|it| (it.line.unwrap_or(0), it.text)).collect()
    }

    #[test]
    fn a_bad_document_spares_its_neighbours() {
        let text =
            format!("{GOOD}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: bad\n---\n{GOOD}");
        let loaded = load("f.yaml", &text);
        assert_eq!(loaded.pods.len(), 2);
        assert_eq!(loaded.remarks.len(), 1, "{:?}", loaded.remarks);
        assert!(loaded.has_errors());
        let shown = loaded.remarks[0].to_string();
        assert!(
            shown.starts_with("f.yaml:") && shown.contains("error"),
            "{shown}"
        );
    }

    #[test]
    fn an_unknown_field_warns_and_the_pod_runs() {
        let text = GOOD.replace("image: i", "image: i, imagePolicy: x");
        let loaded = load("f.yaml", &text);
        assert_eq!(loaded.pods.len(), 1);
        assert!(!loaded.has_errors());
        let remark = &loaded.remarks[0];
        assert_eq!((remark.line, remark.weight), (Some(4), Weight::Warning));
        assert!(remark.text.contains("spec.containers[0].imagePolicy"));
    }

    #[test]
    fn a_class_may_choose_among_nodes() {
        let text = |value: &str| {
            format!(
                "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {{ name: guest }}\n\
                 handler: guest\nscheduling: {{ nodeSelector: {{ guests: {value} }} }}\n"
            )
        };
        let loaded = load("f.yaml", &text("\"yes\""));
        assert_eq!((loaded.objects.len(), loaded.remarks.len()), (1, 0));
        let loaded = load("f.yaml", &text("[]"));
        assert!(loaded.has_errors() && loaded.objects.is_empty());
        assert_eq!(loaded.remarks[0].line, Some(5));
    }

    #[test]
    fn the_examples_are_good() {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/node");
        let mut pods = 0;
        for entry in std::fs::read_dir(examples).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let loaded = load(&path.display().to_string(), &text);
            assert!(!loaded.has_errors(), "{:?}", loaded.remarks);
            let unknown = loaded.remarks.iter().find(|it| it.text.contains("unknown"));
            assert_eq!(unknown, None);
            pods += loaded.pods.len();
        }
        assert!(pods >= 6, "{pods}");
    }

    #[test]
    fn what_is_no_pod_says_so() {
        for (text, line, word) in [
            ("just text", 1, "map"),
            ("\n\nkind: Pod\n", 3, "apiVersion"),
            ("apiVersion: v2\nkind: Pod\n", 1, "apiVersion v1"),
            ("apiVersion: v1\nkind: Service\n", 1, "skipped"),
            ("apiVersion: x.io/v1\nkind: Thing\n", 1, "skipped"),
            ("apiVersion: v1\nkind: Pod\n  oops\n", 1, "unknown kind"),
            ("apiVersion: apps/v1beta1\nkind: Deployment\n", 1, "apps/v1"),
            ("apiVersion: v1\nkind: PodList\n", 1, "items"),
        ] {
            let found = remarks(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!(found[0].0, line, "{text}");
            assert!(found[0].1.contains(word), "{found:?}");
        }
    }

    #[test]
    fn lists_give_their_items() {
        let list = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: \
                    {containers: [{name: c, image: i}]}\n- metadata: {name: b}\n  spec: {}\n";
        let loaded = load("f.yaml", list);
        assert_eq!(loaded.pods.len(), 1);
        assert!(loaded.remarks[0].text.contains("spec.containers"));
        let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  \
                    metadata: {name: c}\n  data: {a: b}\n";
        let loaded = load("f.yaml", list);
        assert_eq!(loaded.objects.len(), 1, "{:?}", loaded.remarks);
    }

    #[test]
    fn mistakes_in_templates_name_the_line_in_the_template() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: \
                    3\n  template:\n    spec:\n      containers:\n      - name: c\n        image: i\n      \
                    - name: c\n        image: i\n";
        let found = remarks(text);
        let duplicate = found
            .iter()
            .find(|(_, text)| text.contains("spec.containers[1].name"));
        assert_eq!(duplicate.map(|(line, _)| *line), Some(11), "{found:?}");
        assert_eq!(
            found
                .iter()
                .filter(|(_, text)| text.contains("containers[1]"))
                .count(),
            1
        );
    }
}
