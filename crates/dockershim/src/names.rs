//! Names of containers, which identify their pod: `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`.

use orlop_cri_api::v1::{ContainerMetadata, PodSandboxMetadata};

const PREFIX: &str = "k8s";
const SEPARATOR: char = '_';
/// The container part in the name of a sandbox.
pub(crate) const SANDBOX: &str = "POD";

/// Returns the name of a pod's sandbox.
pub(crate) fn of_sandbox(pod: &PodSandboxMetadata) -> String {
    joined(SANDBOX, pod, pod.attempt)
}

/// Returns the name of a pod's container.
pub(crate) fn of_container(pod: &PodSandboxMetadata, container: &ContainerMetadata) -> String {
    joined(&container.name, pod, container.attempt)
}

fn joined(container: &str, pod: &PodSandboxMetadata, attempt: u32) -> String {
    let PodSandboxMetadata {
        name,
        uid,
        namespace,
        ..
    } = pod;
    format!("{PREFIX}_{container}_{name}_{namespace}_{uid}_{attempt}")
}

/// Adds a random part to a name that is taken and cannot be freed.
pub(crate) fn randomised(name: &str) -> String {
    format!("{name}{SEPARATOR}{:08x}", rand::random::<u32>())
}

/// Parses the pod from a sandbox's name.
pub(crate) fn sandbox_of(name: &str) -> Option<PodSandboxMetadata> {
    let parts = parts(name)?;
    Some(PodSandboxMetadata {
        name: parts[2].to_owned(),
        namespace: parts[3].to_owned(),
        uid: parts[4].to_owned(),
        attempt: parts[5].parse().ok()?,
    })
}

/// Parses the container from its name.
pub(crate) fn container_of(name: &str) -> Option<ContainerMetadata> {
    let parts = parts(name)?;
    Some(ContainerMetadata {
        name: parts[1].to_owned(),
        attempt: parts[5].parse().ok()?,
    })
}

/// Whether a container was made for a pod. Labels do not prove it: an image can set labels, but no name.
pub(crate) fn is_ours(name: &str) -> bool {
    let name = name.strip_prefix('/').unwrap_or(name);
    let mut parts = name.split(SEPARATOR);
    parts.next() == Some(PREFIX) && parts.count() >= 5
}

/// Splits a name into six parts, or seven with a random one at the end.
fn parts(name: &str) -> Option<Vec<&str>> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let parts: Vec<_> = name.split(SEPARATOR).collect();
    (matches!(parts.len(), 6 | 7) && parts[0] == PREFIX).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let pod = PodSandboxMetadata {
            name: "web-0".into(),
            namespace: "default".into(),
            uid: "1234-abcd".into(),
            attempt: 3,
        };
        assert_eq!(of_sandbox(&pod), "k8s_POD_web-0_default_1234-abcd_3");
        assert_eq!(
            sandbox_of(&format!("/{}", of_sandbox(&pod))),
            Some(pod.clone())
        );
        let container = ContainerMetadata {
            name: "app".into(),
            attempt: 7,
        };
        let name = of_container(&pod, &container);
        assert_eq!(name, "k8s_app_web-0_default_1234-abcd_7");
        assert_eq!(container_of(&name), Some(container.clone()));
        let random = randomised(&name);
        assert_eq!(random.len(), name.len() + 9);
        assert_eq!(container_of(&random), Some(container));
    }

    #[test]
    fn names_of_others_tell_nothing() {
        for name in [
            "",
            "web",
            "/k8s_a_b_c",
            "/x_a_b_c_d_1",
            "k8s_a_b_c_d_x",
            "k8s_a_b_c_d_1_e_f",
        ] {
            assert_eq!(container_of(name), None, "{name}");
        }
        for name in ["", "web", "k8s", "/k8s_a_b_c", "/x_a_b_c_d_1"] {
            assert!(!is_ours(name), "{name}");
        }
        for name in [
            "/k8s_a_b_c_d_1",
            "k8s_a_b_c_d_1_0123abcd",
            "k8s_a_a_b_c_d_1_0123abcd",
        ] {
            assert!(is_ours(name), "{name}");
        }
    }
}
