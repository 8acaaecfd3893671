//! The namespaces of a container: the pod's, its own, or the node's.

use orlop_cri_api::v1;
use orlop_oci_types::{Namespace, NamespaceKind};

use super::Error;
use super::input::PodNamespaces;
use super::userns::IdRanges;

const FIELD: &str = "config.linux.security_context.namespace_options";

/// Returns the namespaces of a container.
///
/// Network, IPC and UTS are always the pod's. Namespaces of the node are not listed: a runtime leaves those
/// alone.
pub(super) fn list(
    options: &v1::NamespaceOption,
    pod_options: &v1::NamespaceOption,
    pod: &PodNamespaces,
    own_cgroup_namespace: bool,
) -> Result<Vec<Namespace>, Error> {
    let mut namespaces = vec![new(NamespaceKind::Mount)];
    let shared = [
        (NamespaceKind::Network, &pod.network),
        (NamespaceKind::Ipc, &pod.ipc),
        (NamespaceKind::Uts, &pod.uts),
        (NamespaceKind::User, &pod.user),
    ];
    for (kind, path) in shared {
        if let Some(path) = path {
            namespaces.push(join(kind, path));
        }
    }
    namespaces.extend(pid(options, pod_options, pod)?);
    if own_cgroup_namespace {
        namespaces.push(new(NamespaceKind::Cgroup));
    }
    Ok(namespaces)
}

/// Returns the id ranges of a container, which must be those of its pod.
pub(super) fn id_ranges(
    options: &v1::NamespaceOption,
    pod_options: &v1::NamespaceOption,
) -> Result<Option<IdRanges>, Error> {
    let own = IdRanges::parse(Some(options))?;
    if own != IdRanges::parse(Some(pod_options))? {
        let field = format!("{FIELD}.userns_options");
        return Err(Error::invalid(field, "differs from the value of the pod"));
    }
    Ok(own)
}

fn pid(
    options: &v1::NamespaceOption,
    pod_options: &v1::NamespaceOption,
    pod: &PodNamespaces,
) -> Result<Option<Namespace>, Error> {
    let field = || format!("{FIELD}.pid");
    let pod_is_nodes = pod_options.pid == i32::from(v1::NamespaceMode::Node);
    match v1::NamespaceMode::try_from(options.pid) {
        Ok(v1::NamespaceMode::Container) => Ok(Some(new(NamespaceKind::Pid))),
        Ok(v1::NamespaceMode::Node) if pod_is_nodes => Ok(None),
        Ok(v1::NamespaceMode::Node) => {
            let problem = "NODE requires a pod in the node's PID namespace";
            Err(Error::invalid(field(), problem))
        }
        Ok(v1::NamespaceMode::Pod) => match &pod.pid {
            Some(path) => Ok(Some(join(NamespaceKind::Pid, path))),
            None if pod_is_nodes => Ok(None),
            // POD is zero on the wire, so a request without namespace options also says POD. A container of a pod that
            // shares no PID namespace gets its own, the stricter choice.
            None => Ok(Some(new(NamespaceKind::Pid))),
        },
        Ok(v1::NamespaceMode::Target) => {
            let path = pod.target_pid.as_deref().ok_or_else(|| {
                let problem = format!(
                    "the container {:?} is not running in this pod",
                    options.target_id
                );
                Error::not_found(format!("{FIELD}.target_id"), problem)
            })?;
            Ok(Some(join(NamespaceKind::Pid, path)))
        }
        Err(_) => Err(Error::invalid(
            field(),
            format!("unknown mode {}", options.pid),
        )),
    }
}

fn new(kind: NamespaceKind) -> Namespace {
    Namespace {
        kind,
        path: String::new(),
    }
}

fn join(kind: NamespaceKind, path: &str) -> Namespace {
    Namespace {
        kind,
        path: path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid_mode(mode: v1::NamespaceMode) -> v1::NamespaceOption {
        v1::NamespaceOption {
            pid: mode.into(),
            ..Default::default()
        }
    }

    fn pod() -> PodNamespaces {
        PodNamespaces {
            network: Some("/proc/7/ns/net".into()),
            ipc: Some("/proc/7/ns/ipc".into()),
            uts: Some("/proc/7/ns/uts".into()),
            pid: Some("/proc/8/ns/pid".into()),
            target_pid: Some("/proc/9/ns/pid".into()),
            user: None,
        }
    }

    fn path_of(namespaces: &[Namespace], kind: NamespaceKind) -> Option<&str> {
        namespaces
            .iter()
            .find(|own| own.kind == kind)
            .map(|own| own.path.as_str())
    }

    #[test]
    fn each_pid_mode_finds_its_namespace() {
        use v1::NamespaceMode::{Container, Node, Pod, Target};
        for (mode, pod_mode, path) in [
            (Pod, Pod, Some("/proc/8/ns/pid")),
            (Container, Pod, Some("")),
            (Container, Container, Some("")),
            (Node, Node, None),
            (Target, Container, Some("/proc/9/ns/pid")),
        ] {
            let list = list(&pid_mode(mode), &pid_mode(pod_mode), &pod(), false).unwrap();
            assert_eq!(
                path_of(&list, NamespaceKind::Pid),
                path,
                "{mode:?} in {pod_mode:?}"
            );
            assert_eq!(
                path_of(&list, NamespaceKind::Network),
                Some("/proc/7/ns/net")
            );
            assert_eq!(path_of(&list, NamespaceKind::Mount), Some(""));
            assert_eq!(path_of(&list, NamespaceKind::User), None);
        }
    }

    #[test]
    fn the_nodes_own_namespaces_are_not_named() {
        let node = pid_mode(v1::NamespaceMode::Node);
        let list = list(&node, &node, &PodNamespaces::default(), true).unwrap();
        let kinds: Vec<_> = list.iter().map(|own| own.kind).collect();
        assert_eq!(kinds, [NamespaceKind::Mount, NamespaceKind::Cgroup]);
    }

    #[test]
    fn a_container_cannot_leave_its_pod_for_the_node() {
        use v1::NamespaceMode::{Node, Pod};
        let error = list(&pid_mode(Node), &pid_mode(Pod), &pod(), false).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }

    #[test]
    fn a_missing_target_is_named() {
        let options = v1::NamespaceOption {
            target_id: "gone".into(),
            ..pid_mode(v1::NamespaceMode::Target)
        };
        let error = list(
            &options,
            &pid_mode(v1::NamespaceMode::Pod),
            &PodNamespaces::default(),
            false,
        )
        .unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }));
        assert!(error.to_string().contains("\"gone\""), "{error}");
    }

    #[test]
    fn a_container_has_its_pods_ids() {
        let mapping = vec![v1::IdMapping {
            host_id: 1000,
            container_id: 0,
            length: 10,
        }];
        let mapped = v1::NamespaceOption {
            userns_options: Some(v1::UserNamespace {
                mode: v1::NamespaceMode::Pod.into(),
                uids: mapping.clone(),
                gids: mapping,
            }),
            ..Default::default()
        };
        assert!(id_ranges(&mapped, &mapped).unwrap().is_some());
        assert!(id_ranges(&v1::NamespaceOption::default(), &mapped).is_err());
    }
}
