//! The last snapshot of a source.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_kuberuntime::manager::{Objects, PodInput};

use crate::manifest::{Remark, Weight};
use crate::source::Snapshot;

#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) pods: Vec<Wanted>,
    pub(super) remarks: Vec<Remark>,
    objects: Arc<Objects>,
}

/// A pod that a source lists.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) input: PodInput,
    pub(super) origin: String,
    line: usize,
}

impl Wanted {
    /// Describes where its manifest is.
    pub(super) fn place(&self) -> String {
        match self.line {
            0 => self.origin.clone(),
            line => format!("{}:{line}", self.origin),
        }
    }

    pub(super) fn remark(&self, text: String) -> Remark {
        Remark {
            origin: self.origin.clone(),
            line: (self.line > 0).then_some(self.line),
            object: format!("Pod {}", self.input.full_name()),
            weight: Weight::Error,
            text,
        }
    }
}

impl Spoken {
    /// Parses a snapshot; pods that have not changed since `before` are not parsed again.
    pub(super) fn new(snapshot: Snapshot, before: Option<Self>) -> Self {
        let Snapshot {
            pods,
            objects: written,
            mut remarks,
        } = snapshot;
        let mut objects = Objects::default();
        for object in &written {
            if let Err(error) = objects.add(object) {
                remarks.push(Remark {
                    origin: String::new(),
                    line: None,
                    object: object["kind"].as_str().unwrap_or_default().to_owned(),
                    weight: Weight::Error,
                    text: error.to_string(),
                });
            }
        }
        let objects = match &before {
            Some(before) if *before.objects == objects => Arc::clone(&before.objects),
            _ => Arc::new(objects),
        };
        // Unchanged pods are not parsed again.
        let read: BTreeMap<&str, &PodInput> = before
            .iter()
            .filter(|before| Arc::ptr_eq(&before.objects, &objects))
            .flat_map(|before| &before.pods)
            .map(|wanted| (wanted.input.uid(), &wanted.input))
            .collect();
        let mut wanted = Vec::new();
        for pod in pods {
            let uid = pod.manifest["metadata"]["uid"].as_str().unwrap_or_default();
            let same = read
                .get(uid)
                .filter(|input| *input.manifest == pod.manifest);
            let input = match same {
                Some(input) => Ok((*input).clone()),
                None => PodInput::new(pod.kind, pod.manifest, Arc::clone(&objects)),
            };
            match input {
                Ok(input) => wanted.push(Wanted {
                    input,
                    origin: pod.origin,
                    line: pod.line,
                }),
                Err(error) => remarks.push(Remark {
                    origin: pod.origin,
                    line: (pod.line > 0).then_some(pod.line),
                    object: "Pod".to_owned(),
                    weight: Weight::Error,
                    text: error.to_string(),
                }),
            }
        }
        Self {
            pods: wanted,
            remarks,
            objects,
        }
    }
}
