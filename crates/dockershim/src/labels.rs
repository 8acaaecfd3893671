//! Labels of containers in the engine. The engine has no annotations, so these are stored as labels too; a few labels
//! of our own describe the container.

use std::collections::{BTreeMap, HashMap};

/// The kind of a container: [`SANDBOX`] or [`CONTAINER`].
pub(crate) const KIND: &str = "io.kubernetes.docker.type";
/// The kind of a pod's sandbox.
pub(crate) const SANDBOX: &str = "podsandbox";
/// The kind of a pod's container.
pub(crate) const CONTAINER: &str = "container";
/// The id of a container's sandbox.
pub(crate) const SANDBOX_ID: &str = "io.kubernetes.sandbox.id";
/// The path of a container's log.
pub(crate) const LOG_PATH: &str = "io.kubernetes.container.logpath";
/// The container's name; on sandboxes, our own constant.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Limits that the engine does not support, applied when the container starts.
pub(crate) const EXTRA_LIMITS: &str = "io.orlop.docker.limits";
/// The ids of the images that a container mounts, by mount path. The engine keeps only their names.
pub(crate) const MOUNTED_IMAGES: &str = "io.orlop.docker.mounted-images";
/// The name of a container's image, if the engine was given the image's id.
pub(crate) const IMAGE_NAME: &str = "io.orlop.docker.image";
/// On sandboxes: the requested runtime handler, which the engine's runtime does not reveal if it is the default.
pub(crate) const HANDLER: &str = "io.orlop.docker.handler";

const ANNOTATION: &str = "annotation.";
const INTERNAL: [&str; 7] = [
    KIND,
    SANDBOX_ID,
    LOG_PATH,
    EXTRA_LIMITS,
    MOUNTED_IMAGES,
    IMAGE_NAME,
    HANDLER,
];

/// Combines labels and annotations into the engine's labels, and sets our own labels to empty. The engine adds the
/// image's labels that are missing, and an image must not set ours.
pub(crate) fn joined(
    labels: &HashMap<String, String>,
    annotations: &HashMap<String, String>,
) -> BTreeMap<String, String> {
    let annotations = annotations
        .iter()
        .map(|(key, value)| (format!("{ANNOTATION}{key}"), value.clone()));
    labels
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .chain(annotations)
        .chain(INTERNAL.map(|key| (key.to_owned(), String::new())))
        .collect()
}

/// Returns one of our own labels; `None` if it is missing or empty.
pub(crate) fn own<'a>(all: &'a BTreeMap<String, String>, key: &str) -> Option<&'a String> {
    all.get(key).filter(|value| !value.is_empty())
}

/// Splits the engine's labels into labels and annotations, without our own.
pub(crate) fn parted(
    all: &BTreeMap<String, String>,
) -> (HashMap<String, String>, HashMap<String, String>) {
    let is_sandbox = all.get(KIND).is_some_and(|kind| kind == SANDBOX);
    let mut labels = HashMap::new();
    let mut annotations = HashMap::new();
    for (key, value) in all {
        if INTERNAL.contains(&key.as_str()) || (is_sandbox && key == CONTAINER_NAME) {
            continue;
        }
        match key.strip_prefix(ANNOTATION) {
            Some(key) => annotations.insert(key.to_owned(), value.clone()),
            None => labels.insert(key.clone(), value.clone()),
        };
    }
    (labels, annotations)
}

/// Formats a label for the engine's filters.
pub(crate) fn filter(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_of_ours_is_left_to_an_image() {
        let asked = HashMap::from([(HANDLER.to_owned(), "asked".to_owned())]);
        let all = joined(&asked, &HashMap::new());
        for key in INTERNAL {
            assert_eq!(all.get(key).map(String::as_str), Some(""), "{key}");
            assert_eq!(own(&all, key), None);
        }
    }

    #[test]
    fn labels_and_annotations_come_back_as_they_were() {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<HashMap<_, _>>()
        };
        let (labels, annotations) = (map(&[("app", "web")]), map(&[("note", "a=b"), ("x/y", "")]));
        let mut all = joined(&labels, &annotations);
        assert_eq!(all["annotation.x/y"], "");
        all.insert(KIND.into(), SANDBOX.into());
        all.insert(CONTAINER_NAME.into(), "POD".into());
        assert_eq!(parted(&all), (labels.clone(), annotations));
        all.insert(KIND.into(), CONTAINER.into());
        assert!(
            parted(&all).0.contains_key(CONTAINER_NAME),
            "the kubelet's own"
        );
    }
}
