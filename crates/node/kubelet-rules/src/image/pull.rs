//! Decides whether an image is pulled.

use thiserror::Error;

use crate::Timestamp;
use crate::backoff::{Backoff, image_key};
use crate::pod::{Container, Pod, PullPolicy};
use crate::waiting::WaitingReason;

/// What to do for a container's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// The image is present; use this id.
    Use(String),
    /// Pull it under this name.
    Pull(String),
}

/// Why a container cannot get its image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The image name is invalid.
    #[error("invalid image name {image:?}: {why}")]
    InvalidImageName {
        /// The name.
        image: String,
        /// The problem.
        why: &'static str,
    },
    /// The image is not present, and its policy forbids a pull.
    #[error(
        "the image {image:?} is not on this node and its pull policy is Never; load the image, \
         or change the pull policy"
    )]
    ErrImageNeverPull {
        /// The name.
        image: String,
    },
    /// The last pull failed, and its back-off has not expired.
    #[error("cannot pull the image {image:?}; the next attempt is in {} s", .wait.as_secs())]
    ImagePullBackOff {
        /// The name.
        image: String,
        /// The time until the next attempt.
        wait: std::time::Duration,
    },
}

impl ImageError {
    /// Returns the reason that a waiting container shows.
    pub fn reason(&self) -> WaitingReason {
        match self {
            Self::InvalidImageName { .. } => WaitingReason::InvalidImageName,
            Self::ErrImageNeverPull { .. } => WaitingReason::ErrImageNeverPull,
            Self::ImagePullBackOff { .. } => WaitingReason::ImagePullBackOff,
        }
    }
}

/// Decides what to do for a container's image; `on_node` is its id if it is present.
pub fn plan_image(
    pod: &Pod,
    container: &Container,
    on_node: Option<&str>,
    backoff: &Backoff,
    now: Timestamp,
) -> Result<Presence, ImageError> {
    let image = with_default_tag(&container.image)?;
    let policy = container
        .image_pull_policy
        .unwrap_or_else(|| default_policy(&image));
    match (policy, on_node) {
        (PullPolicy::IfNotPresent | PullPolicy::Never, Some(id)) => {
            return Ok(Presence::Use(id.to_owned()));
        }
        (PullPolicy::Never, None) => return Err(ImageError::ErrImageNeverPull { image }),
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, None) => {}
    }
    match backoff.blocked_since_failure(&image_key(pod, &image), now) {
        Some(until) => Err(ImageError::ImagePullBackOff {
            image,
            wait: until.since(now),
        }),
        None => Ok(Presence::Pull(image)),
    }
}

/// Returns the default pull policy: `Always` for the tag `latest`.
pub fn default_policy(image_with_tag: &str) -> PullPolicy {
    if !image_with_tag.contains('@') && image_with_tag.ends_with(":latest") {
        PullPolicy::Always
    } else {
        PullPolicy::IfNotPresent
    }
}

/// Adds `:latest` to an image name without tag and digest. It adds no registry: the runtime
/// resolves short names.
pub fn with_default_tag(image: &str) -> Result<String, ImageError> {
    let invalid = |why| ImageError::InvalidImageName {
        image: image.to_owned(),
        why,
    };
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let (path, last) = named.rsplit_once('/').unwrap_or(("", named));
    let (name, tag) = match last.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (last, None),
    };
    if name.is_empty() {
        return Err(invalid("it is empty"));
    }
    // The first part of the path may be a host, which can contain capitals and a port.
    let repository = match path.split_once('/') {
        Some((host, rest)) if is_host(host) => rest,
        None if is_host(path) => "",
        _ => path,
    };
    let parts = repository.split('/').filter(|_| !repository.is_empty());
    if !parts.chain([name]).all(is_repository_part) {
        return Err(invalid(
            "a repository name consists of lower case letters, digits and single . _ - between \
             them",
        ));
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(invalid(
            "a tag has up to 128 letters, digits, _ . and -, and must not begin with . or -",
        ));
    }
    if digest.is_some_and(|d| !is_digest(d)) {
        return Err(invalid(
            "a digest has the form algorithm:hexadecimal digits",
        ));
    }
    Ok(match (tag, digest) {
        (None, None) => format!("{image}:latest"),
        _ => image.to_owned(),
    })
}

fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.chars().any(char::is_uppercase)
}

fn is_repository_part(part: &str) -> bool {
    let alphanumeric =
        |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    alphanumeric(part.chars().next())
        && alphanumeric(part.chars().last())
        && part
            .chars()
            .all(|c| alphanumeric(Some(c)) || matches!(c, '.' | '_' | '-'))
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && !tag.starts_with(['.', '-'])
        && tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tag_and_nothing_else() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("busybox", Some("busybox:latest")),
            ("busybox:1", Some("busybox:1")),
            ("localhost:5000/a", Some("localhost:5000/a:latest")),
            ("localhost:5000/a:2", Some("localhost:5000/a:2")),
            ("r.example/a/b_c.d-e", Some("r.example/a/b_c.d-e:latest")),
            (&digest, Some(&digest)),
            ("", None),
            ("Busybox", None),
            ("a b", None),
            ("a:", None),
            ("a:-x", None),
            ("a@sha256:12", None),
            ("r.example/a//b", None),
            ("r.example/", None),
        ] {
            assert_eq!(
                with_default_tag(image).ok().as_deref(),
                expected,
                "{image:?}"
            );
        }
    }

    #[test]
    fn policies() {
        use PullPolicy::{Always, IfNotPresent, Never};
        let pull = |name: &str| Ok(Presence::Pull(name.to_owned()));
        let here = || Ok(Presence::Use("id".to_owned()));
        for (policy, image, on_node, expected) in [
            (Some(Always), "a:1", true, pull("a:1")),
            (Some(IfNotPresent), "a:1", true, here()),
            (Some(IfNotPresent), "a:1", false, pull("a:1")),
            (Some(Never), "a:1", true, here()),
            (Some(Never), "a:1", false, Err("ErrImageNeverPull")),
            (None, "a", true, pull("a:latest")),
            (None, "a:1", true, here()),
            (None, "A", true, Err("InvalidImageName")),
        ] {
            let container = Container {
                image: image.to_owned(),
                image_pull_policy: policy,
                ..Container::default()
            };
            let plan = plan_image(
                &Pod::default(),
                &container,
                on_node.then_some("id"),
                &Backoff::default(),
                Timestamp(0),
            );
            assert_eq!(
                plan.map_err(|e| e.reason().word()),
                expected,
                "{policy:?} {image}"
            );
        }
    }

    #[test]
    fn a_failed_pull_holds_up_the_next_but_not_an_image_that_is_here() {
        let pod = Pod::default();
        let container = Container {
            image: "a:1".to_owned(),
            ..Container::default()
        };
        let mut backoff = Backoff::default();
        let at = Timestamp::from_secs;
        backoff.next(&image_key(&pod, "a:1"), at(0), at(0));
        let plan = |on_node, secs| plan_image(&pod, &container, on_node, &backoff, at(secs));
        assert_eq!(
            plan(None, 4).unwrap_err().reason().word(),
            "ImagePullBackOff"
        );
        assert_eq!(plan(None, 10), Ok(Presence::Pull("a:1".to_owned())));
        assert_eq!(plan(Some("id"), 4), Ok(Presence::Use("id".to_owned())));
    }
}
