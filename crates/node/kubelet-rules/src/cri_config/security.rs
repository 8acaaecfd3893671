//! The CRI security settings of a container.

use orlop_cri_api::v1;
use orlop_cri_api::v1::security_profile::ProfileType;
use thiserror::Error;

use crate::pod::{
    AppArmorProfile, Container, GroupPolicy, Pod, ProfileKind, SeLinuxOptions, SeccompProfile,
};

const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The user that an image specifies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageUser {
    /// The numeric user id, if any.
    pub uid: Option<i64>,
    /// The user name.
    pub name: String,
}

/// Why `runAsNonRoot` rejects a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RootRefused {
    /// The manifest sets both `runAsNonRoot` and user 0.
    #[error("the container has runAsNonRoot, but its runAsUser is 0; set another runAsUser")]
    Manifest,
    /// The image runs as root.
    #[error("the container has runAsNonRoot, and its image runs as root; set runAsUser")]
    Image,
    /// The image names its user, which may be root, without a numeric id.
    #[error("the container has runAsNonRoot, and its image has a non-numeric user; set runAsUser")]
    NamedUser,
}

/// Checks a container's `runAsNonRoot`.
pub fn check_non_root(
    pod: &Pod,
    container: &Container,
    user: &ImageUser,
) -> Result<(), RootRefused> {
    let of_pod = &pod.spec.security_context;
    let own = &container.security_context;
    if own.run_as_non_root.or(of_pod.run_as_non_root) != Some(true) {
        return Ok(());
    }
    match (own.run_as_user.or(of_pod.run_as_user), user.uid) {
        (Some(0), _) => Err(RootRefused::Manifest),
        (None, Some(0)) => Err(RootRefused::Image),
        (Some(_), _) | (None, Some(_)) => Ok(()),
        (None, None) if user.name.is_empty() => Err(RootRefused::Image),
        (None, None) => Err(RootRefused::NamedUser),
    }
}

/// Returns the namespaces of a pod, or of an ephemeral container with a target.
pub(super) fn namespaces(
    pod: &Pod,
    target_id: Option<&str>,
    user_namespace: Option<&v1::UserNamespace>,
) -> v1::NamespaceOption {
    let node_if = |host: bool| {
        if host {
            v1::NamespaceMode::Node
        } else {
            v1::NamespaceMode::Pod
        }
    };
    let pid = if target_id.is_some() {
        v1::NamespaceMode::Target
    } else if pod.spec.host_pid {
        v1::NamespaceMode::Node
    } else if pod.spec.share_process_namespace {
        v1::NamespaceMode::Pod
    } else {
        v1::NamespaceMode::Container
    };
    v1::NamespaceOption {
        network: node_if(pod.spec.host_network).into(),
        pid: pid.into(),
        ipc: node_if(pod.spec.host_ipc).into(),
        target_id: target_id.unwrap_or_default().to_owned(),
        userns_options: user_namespace.cloned(),
    }
}

/// Returns the security settings of a container: its own override the pod's, which override the
/// image's.
pub(super) fn container_security(
    pod: &Pod,
    container: &Container,
    user: &ImageUser,
    target_id: Option<&str>,
    user_namespace: Option<&v1::UserNamespace>,
) -> v1::LinuxContainerSecurityContext {
    let own = &container.security_context;
    let of_pod = &pod.spec.security_context;
    let privileged = own.privileged.unwrap_or(false);
    let wanted_user = own.run_as_user.or(of_pod.run_as_user);
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let paths = |paths: &[&str]| {
        let hide = !privileged && !unmasked;
        paths
            .iter()
            .filter(|_| hide)
            .map(|p| (*p).to_owned())
            .collect()
    };
    v1::LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|c| v1::Capability {
            add_capabilities: c.add.clone(),
            drop_capabilities: c.drop.clone(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged,
        namespace_options: Some(namespaces(pod, target_id, user_namespace)),
        selinux_options: own
            .se_linux_options
            .as_ref()
            .or(of_pod.se_linux_options.as_ref())
            .map(selinux),
        run_as_user: wanted_user.or(user.uid).map(int64),
        run_as_username: if wanted_user.is_none() && user.uid.is_none() {
            user.name.clone()
        } else {
            String::new()
        },
        run_as_group: own.run_as_group.or(of_pod.run_as_group).map(int64),
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: groups(pod),
        supplemental_groups_policy: group_policy(pod).into(),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(seccomp(
            own.seccomp_profile
                .as_ref()
                .or(of_pod.seccomp_profile.as_ref()),
        )),
        apparmor: own
            .app_armor_profile
            .as_ref()
            .or(of_pod.app_armor_profile.as_ref())
            .map(apparmor),
        ..v1::LinuxContainerSecurityContext::default()
    }
}

pub(super) fn groups(pod: &Pod) -> Vec<i64> {
    let context = &pod.spec.security_context;
    let fs_group = context.fs_group.into_iter();
    fs_group
        .chain(context.supplemental_groups.iter().copied())
        .collect()
}

pub(super) fn group_policy(pod: &Pod) -> v1::SupplementalGroupsPolicy {
    match pod.spec.security_context.supplemental_groups_policy {
        Some(GroupPolicy::Strict) => v1::SupplementalGroupsPolicy::Strict,
        Some(GroupPolicy::Merge) | None => v1::SupplementalGroupsPolicy::Merge,
    }
}

pub(super) fn int64(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

pub(super) fn selinux(options: &SeLinuxOptions) -> v1::SeLinuxOption {
    v1::SeLinuxOption {
        user: options.user.clone(),
        role: options.role.clone(),
        r#type: options.kind.clone(),
        level: options.level.clone(),
    }
}

/// Converts a seccomp profile. Without a profile there is no filter: the default of Kubernetes,
/// unless the node changes it.
fn seccomp(profile: Option<&SeccompProfile>) -> v1::SecurityProfile {
    profile.map_or_else(
        || security_profile(ProfileKind::Unconfined, None),
        |p| security_profile(p.kind, p.localhost_profile.as_deref()),
    )
}

fn apparmor(profile: &AppArmorProfile) -> v1::SecurityProfile {
    security_profile(profile.kind, profile.localhost_profile.as_deref())
}

pub(super) fn security_profile(kind: ProfileKind, local: Option<&str>) -> v1::SecurityProfile {
    let (profile_type, localhost_ref) = match kind {
        ProfileKind::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
        ProfileKind::Unconfined => (ProfileType::Unconfined, ""),
        ProfileKind::Localhost => (ProfileType::Localhost, local.unwrap_or_default()),
    };
    v1::SecurityProfile {
        profile_type: profile_type.into(),
        localhost_ref: localhost_ref.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_root_means_it() {
        let named = |name: &str| ImageUser {
            uid: None,
            name: name.to_owned(),
        };
        let numbered = |uid| ImageUser {
            uid: Some(uid),
            name: String::new(),
        };
        for (wanted, run_as, user, expected) in [
            (None, Some(0), numbered(0), Ok(())),
            (Some(true), Some(0), numbered(5), Err(RootRefused::Manifest)),
            (Some(true), Some(5), numbered(0), Ok(())),
            (Some(true), None, numbered(0), Err(RootRefused::Image)),
            (Some(true), None, numbered(5), Ok(())),
            (Some(true), None, named(""), Err(RootRefused::Image)),
            (Some(true), None, named("www"), Err(RootRefused::NamedUser)),
        ] {
            let mut pod = Pod::default();
            pod.spec.security_context.run_as_non_root = wanted;
            let mut container = Container::default();
            container.security_context.run_as_user = run_as;
            assert_eq!(
                check_non_root(&pod, &container, &user),
                expected,
                "{user:?}"
            );
        }
    }

    #[test]
    fn namespace_modes() {
        use v1::NamespaceMode::{Container as Own, Node, Pod as Shared, Target};
        for (host_pid, share, target, pid) in [
            (false, false, None, Own),
            (false, true, None, Shared),
            (true, false, None, Node),
            (false, false, Some("id"), Target),
        ] {
            let mut pod = Pod::default();
            pod.spec.host_pid = host_pid;
            pod.spec.share_process_namespace = share;
            let made = namespaces(&pod, target, None);
            assert_eq!(made.pid(), pid);
            assert_eq!((made.network(), made.ipc()), (Shared, Shared));
        }
    }

    #[test]
    fn privileged_containers_see_all_of_proc() {
        let mut container = Container::default();
        let made = |c: &Container| {
            container_security(&Pod::default(), c, &ImageUser::default(), None, None).masked_paths
        };
        assert!(made(&container).contains(&"/proc/kcore".to_owned()));
        container.security_context.privileged = Some(true);
        assert_eq!(made(&container), [""; 0]);
    }
}
