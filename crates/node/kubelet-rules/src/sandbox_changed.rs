//! Decides whether a pod needs a new sandbox.

use crate::pod::Pod;
use crate::status::PodStatus;

/// The decision about a pod's sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxChange {
    /// Whether a new one is needed.
    pub create: bool,
    /// The attempt number of the sandbox to use or create.
    pub attempt: u32,
    /// The id of the newest sandbox, if it is relevant.
    pub id: Option<String>,
}

/// Compares the newest sandbox with the pod's specification.
pub fn pod_sandbox_changed(pod: &Pod, status: &PodStatus) -> SandboxChange {
    let Some(newest) = status.sandboxes().first() else {
        return SandboxChange {
            create: true,
            attempt: 0,
            id: None,
        };
    };
    let replace = |id: Option<&String>| SandboxChange {
        create: true,
        attempt: newest.attempt.saturating_add(1),
        id: id.cloned(),
    };
    let ready = status.sandboxes().iter().filter(|s| s.ready).count();
    if ready > 1 || !newest.ready {
        return replace(Some(&newest.id));
    }
    if newest.host_network != pod.spec.host_network {
        return replace(None);
    }
    let without_address = newest
        .ips
        .as_ref()
        .is_some_and(|ips| ips.first().is_none_or(String::is_empty));
    if !pod.spec.host_network && without_address {
        return replace(Some(&newest.id));
    }
    SandboxChange {
        create: false,
        attempt: newest.attempt,
        id: Some(newest.id.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::SandboxStatus;

    fn sandbox(id: &str, attempt: u32) -> SandboxStatus {
        SandboxStatus {
            id: id.to_owned(),
            attempt,
            ready: true,
            ips: Some(vec!["10.0.0.2".to_owned()]),
            ..SandboxStatus::default()
        }
    }

    #[test]
    fn each_rule() {
        let not_ready = |id, attempt| SandboxStatus {
            ready: false,
            ..sandbox(id, attempt)
        };
        let on_host = SandboxStatus {
            host_network: true,
            ..sandbox("a", 3)
        };
        let no_ip = SandboxStatus {
            ips: Some(vec![String::new()]),
            ..sandbox("a", 3)
        };
        let no_network = SandboxStatus {
            ips: None,
            ..sandbox("a", 3)
        };
        for (what, host_network, sandboxes, expected) in [
            ("none yet", false, vec![], (true, 0, None)),
            (
                "two ready",
                false,
                vec![sandbox("a", 3), sandbox("b", 2)],
                (true, 4, Some("a")),
            ),
            (
                "newest not ready",
                false,
                vec![not_ready("a", 3), sandbox("b", 2)],
                (true, 4, Some("a")),
            ),
            (
                "older one not ready",
                false,
                vec![sandbox("a", 3), not_ready("b", 2)],
                (false, 3, Some("a")),
            ),
            (
                "was on the host",
                false,
                vec![on_host.clone()],
                (true, 4, None),
            ),
            (
                "was off the host",
                true,
                vec![sandbox("a", 3)],
                (true, 4, None),
            ),
            ("on the host", true, vec![on_host], (false, 3, Some("a"))),
            (
                "address lost",
                false,
                vec![no_ip.clone()],
                (true, 4, Some("a")),
            ),
            (
                "no address on the host",
                true,
                vec![SandboxStatus {
                    host_network: true,
                    ..no_ip
                }],
                (false, 3, Some("a")),
            ),
            (
                "network unknown",
                false,
                vec![no_network],
                (false, 3, Some("a")),
            ),
            (
                "as wanted",
                false,
                vec![sandbox("a", 3)],
                (false, 3, Some("a")),
            ),
        ] {
            let mut pod = Pod::default();
            pod.spec.host_network = host_network;
            let change = pod_sandbox_changed(&pod, &PodStatus::new(sandboxes, Vec::new()));
            let (create, attempt, id) = expected;
            assert_eq!(
                change,
                SandboxChange {
                    create,
                    attempt,
                    id: id.map(str::to_owned)
                },
                "{what}"
            );
        }
    }
}
