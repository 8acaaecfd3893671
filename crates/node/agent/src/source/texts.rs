//! The manifest texts of a source, and their pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::last_good::LastGood;
use super::snapshot::{Snapshot, SourcePod};
use crate::manifest::{Identity, Loaded, LoadedPod, Remark, SourceKind, Weight, identify, load};

/// Manifest texts by origin.
#[derive(Debug)]
pub(crate) struct Texts {
    kind: SourceKind,
    node: String,
    last_good: LastGood,
    texts: BTreeMap<String, Text>,
}

#[derive(Debug)]
struct Text {
    /// When its pods were first seen, for `kubernetes.io/config.seen`.
    seen: String,
    /// The valid pods.
    pods: Vec<LoadedPod>,
    objects: Vec<Value>,
    remarks: Vec<Remark>,
}

impl Texts {
    pub(crate) fn new(kind: SourceKind, node: &str, last_good: LastGood) -> Self {
        Self {
            kind,
            node: node.to_owned(),
            last_good,
            texts: BTreeMap::new(),
        }
    }

    /// Loads a text, or stores why it cannot be read.
    pub(crate) fn put(&mut self, origin: &str, text: Result<&str, String>) {
        let loaded = match &text {
            Ok(text) => load(origin, text),
            Err(why) => Loaded {
                remarks: vec![Remark {
                    origin: origin.to_owned(),
                    line: None,
                    object: String::new(),
                    weight: Weight::Error,
                    text: why.clone(),
                }],
                ..Loaded::default()
            },
        };
        if let (Ok(text), false) = (&text, loaded.has_errors()) {
            self.last_good.put(origin, text);
        }
        let has_errors = loaded.has_errors();
        let mut new = Text {
            seen: now(),
            pods: loaded.pods,
            objects: loaded.objects,
            remarks: loaded.remarks,
        };
        if has_errors {
            let before = self.texts.remove(origin).or_else(|| {
                let loaded = load(origin, &self.last_good.get(origin)?);
                Some(Text {
                    seen: new.seen.clone(),
                    pods: loaded.pods,
                    objects: loaded.objects,
                    remarks: Vec::new(),
                })
            });
            if let Some(before) = before {
                new.keep(before, origin);
            }
        }
        self.texts.insert(origin.to_owned(), new);
    }

    /// Removes all texts except these.
    pub(crate) fn retain(&mut self, origins: &BTreeSet<String>) {
        let gone: Vec<String> = self
            .texts
            .keys()
            .filter(|origin| !origins.contains(*origin))
            .cloned()
            .collect();
        for origin in gone {
            self.texts.remove(&origin);
            self.last_good.remove(&origin);
        }
    }

    /// Removes saved copies of texts that no longer exist; `path` is what this source reads.
    pub(crate) fn sweep(&self, path: &str) {
        for origin in self.last_good.origins(path) {
            let rest = origin.strip_prefix(path).unwrap_or_default();
            let own = rest.is_empty() || rest.starts_with('/');
            if own && !self.texts.contains_key(&origin) {
                self.last_good.remove(&origin);
            }
        }
    }

    /// Returns a snapshot of all texts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (origin, text) in &self.texts {
            let identity = Identity {
                kind: self.kind,
                origin,
                node: &self.node,
            };
            for pod in &text.pods {
                let mut manifest = pod.manifest.clone();
                identify(&mut manifest, identity);
                manifest["metadata"]["annotations"]["kubernetes.io/config.seen"] = json!(text.seen);
                snapshot.pods.push(SourcePod {
                    manifest,
                    kind: self.kind.word(),
                    origin: origin.clone(),
                    line: pod.line,
                });
            }
            snapshot.objects.extend(text.objects.iter().cloned());
            snapshot.remarks.extend(text.remarks.iter().cloned());
        }
        snapshot
    }
}

impl Text {
    /// Keeps the pods and objects of the previous version that are missing from this invalid one.
    fn keep(&mut self, before: Text, origin: &str) {
        let name = |value: &Value| {
            let text = |field: &str| {
                value["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let kind = value["kind"].as_str().unwrap_or_default().to_owned();
            (kind, text("namespace"), text("name"))
        };
        let pods: BTreeSet<_> = self.pods.iter().map(|pod| name(&pod.manifest)).collect();
        let objects: BTreeSet<_> = self.objects.iter().map(name).collect();
        let kept_pods = before.pods.into_iter();
        let kept_pods: Vec<_> = kept_pods
            .filter(|pod| !pods.contains(&name(&pod.manifest)))
            .collect();
        let kept_objects = before.objects.into_iter();
        self.objects
            .extend(kept_objects.filter(|object| !objects.contains(&name(object))));
        for pod in &kept_pods {
            let (_, namespace, name) = name(&pod.manifest);
            self.remarks.push(Remark {
                origin: origin.to_owned(),
                line: None,
                object: format!("Pod {namespace}/{name}"),
                weight: Weight::Warning,
                text: "keeps its last valid version until the manifest is fixed or removed"
                    .to_owned(),
            });
        }
        self.pods.extend(kept_pods);
        self.seen = before.seen;
    }
}

/// Returns the current time, in the format of `kubernetes.io/config.seen`.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, \
             image: i:1}}]}}\n---\n"
        )
    }

    fn names(texts: &Texts) -> Vec<String> {
        let pods = texts.snapshot().pods.into_iter();
        pods.map(|pod| {
            pod.manifest["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
    }

    #[test]
    fn a_text_that_goes_bad_keeps_its_pods_over_restarts_too() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            let last_good = LastGood::open(directory.path().join("kept")).unwrap();
            Texts::new(SourceKind::File, "n", last_good)
        };
        let mut texts = open();
        texts.put("f", Ok(&(pod("a") + &pod("b"))));
        let before = texts.snapshot().pods;
        assert_eq!(names(&texts), ["a-n", "b-n"]);

        let broken = pod("a") + "apiVersion: v1\nkind: Pod\nmetadata: {name: b\n";
        texts.put("f", Ok(&broken));
        assert_eq!(texts.snapshot().pods, before);
        assert!(texts.snapshot().remarks.len() >= 2);

        let mut again = open();
        again.put("f", Ok(&broken));
        let uids = |pods: Vec<SourcePod>| -> Vec<Value> {
            pods.iter()
                .map(|pod| pod.manifest["metadata"]["uid"].clone())
                .collect()
        };
        assert_eq!(uids(again.snapshot().pods), uids(before));
        again.put("f", Err("no permission".to_owned()));
        assert_eq!(names(&again), ["a-n", "b-n"]);

        again.put("f", Ok(&pod("b")));
        assert_eq!(names(&again), ["b-n"]);
        again.retain(&BTreeSet::new());
        assert_eq!(names(&again), Vec::<String>::new());
        let mut third = open();
        third.put("f", Ok("{"));
        assert_eq!(names(&third), Vec::<String>::new());
    }
}
