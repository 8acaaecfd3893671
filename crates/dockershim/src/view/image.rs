//! Conversion of images to the CRI.

use orlop_cri_api::v1::{Image as CriImage, ImageSpec, Int64Value};

use crate::docker::types::{Image, ImageSummary};

/// Converts a listed image; the list does not contain its user.
pub(crate) fn listed_image(image: ImageSummary, pinned: &[String]) -> CriImage {
    let repo_tags = tags(image.repo_tags);
    CriImage {
        pinned: is_pinned(&repo_tags, pinned),
        id: image.id,
        repo_tags,
        repo_digests: names(image.repo_digests),
        size: u64::try_from(image.size).unwrap_or(0),
        spec: Some(ImageSpec::default()),
        ..Default::default()
    }
}

/// Converts an inspected image.
pub(crate) fn image(image: &Image, pinned: &[String]) -> CriImage {
    let repo_tags = tags(image.repo_tags.clone());
    let (uid, username) = user(&image.config.user);
    CriImage {
        pinned: is_pinned(&repo_tags, pinned),
        id: image.id.clone(),
        repo_tags,
        repo_digests: names(image.repo_digests.clone()),
        size: u64::try_from(image.size).unwrap_or(0),
        uid: uid.map(|value| Int64Value { value }),
        username,
        spec: Some(ImageSpec::default()),
    }
}

fn is_pinned(tags: &[String], pinned: &[String]) -> bool {
    tags.iter().any(|tag| pinned.contains(tag))
}

/// Returns a tag of the image, else a name by digest.
pub(super) fn first_name(image: &Image) -> Option<String> {
    let by_digest = || names(image.repo_digests.clone()).into_iter().next();
    let tag = tags(image.repo_tags.clone()).into_iter().next();
    tag.or_else(by_digest)
}

/// Removes the engine's placeholder for "none" from names.
pub(crate) fn names(names: Vec<String>) -> Vec<String> {
    names
        .into_iter()
        .filter(|name| !name.contains("<none>"))
        .collect()
}

/// Returns the tags. containerd's image store also lists the names by digest among them.
fn tags(all: Vec<String>) -> Vec<String> {
    let mut tags = names(all);
    tags.retain(|name| !name.contains('@'));
    tags
}

/// Parses the user of `USER[:GROUP]`, as a number or as a name.
fn user(text: &str) -> (Option<i64>, String) {
    let user = text.split(':').next().unwrap_or_default();
    match user.parse() {
        Ok(uid) => (Some(uid), String::new()),
        Err(_) => (None, user.to_owned()),
    }
}

/// Formats the image of a Docker container as Kubernetes has always done.
pub(crate) fn pullable(id: &str, image: Option<&Image>) -> String {
    let digest = image.and_then(|image| names(image.repo_digests.clone()).into_iter().next());
    match digest {
        Some(digest) => format!("docker-pullable://{digest}"),
        None => format!("docker://{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_numbers_or_names() {
        assert_eq!(user("1000:10"), (Some(1000), String::new()));
        assert_eq!(user("www:web"), (None, "www".into()));
        assert_eq!(user(""), (None, String::new()));
    }

    #[test]
    fn an_image_without_a_name_has_none() {
        let summary = ImageSummary {
            id: "sha256:1".into(),
            repo_tags: vec!["<none>:<none>".into()],
            repo_digests: vec!["<none>@<none>".into()],
            ..Default::default()
        };
        let image = listed_image(summary, &[]);
        assert!(image.repo_tags.is_empty() && image.repo_digests.is_empty());
        let by_digest = ImageSummary {
            repo_tags: vec!["a.b/c@sha256:1".into(), "a.b/c:1".into()],
            repo_digests: vec!["a.b/c@sha256:1".into()],
            ..Default::default()
        };
        let image = listed_image(by_digest, &[]);
        assert_eq!(image.repo_tags, ["a.b/c:1"]);
        assert_eq!(image.repo_digests, ["a.b/c@sha256:1"]);
        assert_eq!(pullable("sha256:1", None), "docker://sha256:1");
    }
}
