//! The CRI configuration of a container.

use std::collections::BTreeMap;

use orlop_cri_api::v1;

use super::security::{ImageUser, container_security};
use super::{container_resources, expand, expand_env};
use crate::labels;
use crate::log_path::container_log;
use crate::pod::{Container, Pod};

/// Data of the node for a container's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerInput {
    /// The restart count of the instance.
    pub restart_count: u32,
    /// The image's id on the node.
    pub image_ref: String,
    /// The user that the image specifies.
    pub image_user: ImageUser,
    /// Environment variables that the node adds.
    pub given_env: BTreeMap<String, String>,
    /// The resolved mounts of volumes and node files.
    pub mounts: Vec<v1::Mount>,
    /// The container whose processes an ephemeral container can see.
    pub target_id: Option<String>,
    /// The node's memory in bytes.
    pub memory_capacity: u64,
    /// The huge page sizes of the node, as the kernel writes them (`2MB`).
    pub hugepage_sizes: Vec<String>,
    /// The handler of the RuntimeClass.
    pub runtime_handler: String,
    /// The pod's user namespace.
    pub user_namespace: Option<v1::UserNamespace>,
}

/// Builds the CRI configuration of a container.
pub fn container_config(
    pod: &Pod,
    container: &Container,
    input: &ContainerInput,
) -> v1::ContainerConfig {
    let env = expand_env(&container.env, &input.given_env);
    let all = |texts: &[String]| texts.iter().map(|t| expand(t, &env)).collect();
    let command = all(&container.command);
    let args = all(&container.args);
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata {
            name: container.name.clone(),
            attempt: input.restart_count,
        }),
        image: Some(v1::ImageSpec {
            image: input.image_ref.clone(),
            user_specified_image: container.image.clone(),
            runtime_handler: input.runtime_handler.clone(),
            ..v1::ImageSpec::default()
        }),
        command,
        args,
        working_dir: container.working_dir.clone(),
        envs: env
            .into_iter()
            .map(|(key, value)| v1::KeyValue {
                key,
                value: value.into_bytes(),
            })
            .collect(),
        mounts: mounts(input),
        labels: labels::container_labels(pod, container)
            .into_iter()
            .collect(),
        annotations: labels::container_annotations(pod, container, input.restart_count)
            .into_iter()
            .collect(),
        log_path: container_log(&container.name, input.restart_count),
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        tty: container.tty,
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(container_resources(
                pod,
                container,
                input.memory_capacity,
                &input.hugepage_sizes,
            )),
            security_context: Some(container_security(
                pod,
                container,
                &input.image_user,
                input.target_id.as_deref(),
                input.user_namespace.as_ref(),
            )),
        }),
        stop_signal: container
            .lifecycle
            .stop_signal
            .as_deref()
            .and_then(|name| v1::Signal::from_str_name(&proto_name(name)))
            .unwrap_or(v1::Signal::RuntimeDefault)
            .into(),
        ..v1::ContainerConfig::default()
    }
}

/// Returns the mounts with the pod's id mappings, so that files have the same owners in the pod as
/// on the node.
fn mounts(input: &ContainerInput) -> Vec<v1::Mount> {
    let mut mounts = input.mounts.clone();
    if let Some(users) = &input.user_namespace {
        for mount in &mut mounts {
            mount.uid_mappings.clone_from(&users.uids);
            mount.gid_mappings.clone_from(&users.gids);
        }
    }
    mounts
}

/// Converts `SIGRTMIN+1` to the name in the CRI.
fn proto_name(signal: &str) -> String {
    signal.replace('+', "PLUS").replace('-', "MINUS")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_made_from_its_manifest() {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "image": "web:1", "command": ["$(BIN)/run"], "args": ["$(NONE)"],
            "env": [{"name": "BIN", "value": "/opt"}],
            "lifecycle": {"stopSignal": "SIGRTMIN+1"}
        }))
        .unwrap();
        let input = ContainerInput {
            restart_count: 3,
            image_ref: "sha256:1".to_owned(),
            image_user: ImageUser {
                uid: None,
                name: "www".to_owned(),
            },
            ..ContainerInput::default()
        };
        let made = container_config(&Pod::default(), &container, &input);
        assert_eq!(made.command, ["/opt/run"]);
        assert_eq!(made.args, ["$(NONE)"]);
        assert_eq!(made.log_path, "c/3.log");
        assert_eq!(made.annotations[labels::RESTART_COUNT], "3");
        assert_eq!(made.stop_signal(), v1::Signal::Sigrtminplus1);
        let image = made.image.unwrap();
        assert_eq!(
            (image.image.as_str(), image.user_specified_image.as_str()),
            ("sha256:1", "web:1")
        );
        let security = made.linux.unwrap().security_context.unwrap();
        assert_eq!(security.run_as_username, "www");
    }
    #[test]
    fn a_pod_with_users_of_its_own_has_them_in_its_mounts() {
        let users = crate::userns::options(Some(crate::userns::IdRange {
            first: 131_072,
            length: 65536,
        }));
        let input = ContainerInput {
            mounts: vec![v1::Mount::default()],
            user_namespace: Some(users.clone()),
            ..ContainerInput::default()
        };
        let made = container_config(&Pod::default(), &Container::default(), &input);
        assert_eq!(made.mounts[0].uid_mappings, users.uids);
        assert_eq!(made.mounts[0].gid_mappings, users.gids);
        let security = made.linux.unwrap().security_context.unwrap();
        let namespaces = security.namespace_options.unwrap();
        assert_eq!(namespaces.userns_options, Some(users));
    }
}
