//! Request and response types of the engine's API, with the fields that the service uses.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Deserializes `null`, which the engine writes for empty values, as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The response to `GET /version`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct VersionInfo {
    pub(crate) version: String,
    pub(crate) api_version: String,
    #[serde(rename = "MinAPIVersion")]
    pub(crate) min_api_version: String,
    pub(crate) kernel_version: String,
}

/// The response to `GET /info`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Info {
    pub(crate) cgroup_driver: String,
    pub(crate) docker_root_dir: String,
    pub(crate) architecture: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) runtimes: BTreeMap<String, RuntimeInfo>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) security_options: Vec<String>,
    pub(crate) default_runtime: String,
    pub(crate) live_restore_enabled: bool,
    pub(crate) driver: String,
    /// Pairs of a key and a value.
    #[serde(deserialize_with = "or_default")]
    pub(crate) driver_status: Vec<Vec<String>>,
    pub(crate) server_version: String,
    pub(crate) logging_driver: String,
}

impl Info {
    /// Whether the engine uses containerd's image store instead of its own.
    pub(crate) fn has_containerd_images(&self) -> bool {
        let mut pairs = self.driver_status.iter();
        pairs.any(|pair| *pair == ["driver-type", "io.containerd.snapshotter.v1"])
    }
}

/// A runtime that is configured in the engine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RuntimeInfo {
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: BTreeMap<String, String>,
}

/// An entry of `GET /containers/json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerSummary {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) names: Vec<String>,
    pub(crate) image: String,
    #[serde(rename = "ImageID")]
    pub(crate) image_id: String,
    /// Seconds since the epoch.
    pub(crate) created: i64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) state: String,
}

/// The response to `GET /containers/ID/json`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) created: String,
    pub(crate) name: String,
    pub(crate) state: ContainerState,
    /// The image's id.
    pub(crate) image: String,
    pub(crate) resolv_conf_path: String,
    pub(crate) host_config: HostConfig,
    pub(crate) config: ContainerConfig,
    pub(crate) network_settings: NetworkSettings,
    #[serde(deserialize_with = "or_default")]
    pub(crate) mounts: Vec<MountPoint>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) graph_driver: GraphDriver,
}

/// The state of a container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerState {
    pub(crate) status: String,
    pub(crate) running: bool,
    #[serde(rename = "OOMKilled")]
    pub(crate) oom_killed: bool,
    pub(crate) pid: i32,
    pub(crate) exit_code: i32,
    pub(crate) error: String,
    pub(crate) started_at: String,
    pub(crate) finished_at: String,
}

/// The part of a container's configuration that does not concern the host.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    pub(crate) tty: bool,
    pub(crate) open_stdin: bool,
    pub(crate) stdin_once: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) env: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cmd: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) image: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) working_dir: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) healthcheck: Option<Healthcheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exposed_ports: Option<BTreeMap<String, Value>>,
}

/// The health check of a container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Healthcheck {
    #[serde(deserialize_with = "or_default")]
    pub(crate) test: Vec<String>,
}

/// The part of a container's configuration that concerns the host.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct HostConfig {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) binds: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) mounts: Vec<Mount>,
    pub(crate) network_mode: String,
    pub(crate) ipc_mode: String,
    pub(crate) pid_mode: String,
    #[serde(rename = "UTSMode")]
    pub(crate) uts_mode: String,
    pub(crate) restart_policy: RestartPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port_bindings: Option<BTreeMap<String, Vec<PortBinding>>>,
    pub(crate) privileged: bool,
    pub(crate) readonly_rootfs: bool,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) cap_add: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) cap_drop: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) group_add: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) security_opt: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) masked_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) readonly_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sysctls: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) runtime: String,
    pub(crate) cgroup_parent: String,
    #[serde(flatten)]
    pub(crate) resources: Resources,
    pub(crate) oom_score_adj: i64,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) devices: Vec<DeviceMapping>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) device_requests: Vec<DeviceRequest>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) ulimits: Vec<Ulimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pids_limit: Option<i64>,
}

/// Limits that can be updated on an existing container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Resources {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) cpu_shares: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) cpu_quota: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) cpu_period: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cpuset_cpus: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cpuset_mems: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) memory: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) memory_swap: i64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// When the engine restarts a container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RestartPolicy {
    pub(crate) name: String,
}

/// A host port.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct PortBinding {
    pub(crate) host_ip: String,
    pub(crate) host_port: String,
}

/// A host device.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct DeviceMapping {
    pub(crate) path_on_host: String,
    pub(crate) path_in_container: String,
    pub(crate) cgroup_permissions: String,
}

/// A request for devices by CDI name.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct DeviceRequest {
    pub(crate) driver: String,
    #[serde(rename = "DeviceIDs", deserialize_with = "or_default")]
    pub(crate) device_ids: Vec<String>,
}

/// A limit of setrlimit(2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Ulimit {
    pub(crate) name: String,
    pub(crate) soft: i64,
    pub(crate) hard: i64,
}

/// A mount in a create request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Mount {
    pub(crate) r#type: String,
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bind_options: Option<BindOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_options: Option<ImageOptions>,
}

/// Options of a bind mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct BindOptions {
    pub(crate) propagation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_only_non_recursive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_only_force_recursive: Option<bool>,
}

/// Options of an image mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ImageOptions {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) subpath: String,
}

/// A mount of an existing container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct MountPoint {
    pub(crate) r#type: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    #[serde(rename = "RW")]
    pub(crate) rw: bool,
    pub(crate) propagation: String,
}

/// The networks of a container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct NetworkSettings {
    #[serde(rename = "IPAddress")]
    pub(crate) ip_address: String,
    #[serde(rename = "GlobalIPv6Address")]
    pub(crate) global_ipv6_address: String,
    /// Endpoints by network; newer engines report addresses only here.
    #[serde(deserialize_with = "or_default")]
    pub(crate) networks: BTreeMap<String, Endpoint>,
}

/// A container's endpoint in a network.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Endpoint {
    #[serde(rename = "IPAddress")]
    pub(crate) ip_address: String,
    #[serde(rename = "GlobalIPv6Address")]
    pub(crate) global_ipv6_address: String,
}

/// The location of a container's or image's files.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct GraphDriver {
    #[serde(deserialize_with = "or_default")]
    pub(crate) data: BTreeMap<String, String>,
}

/// The body of a container create request.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CreateBody {
    #[serde(flatten)]
    pub(crate) config: ContainerConfig,
    pub(crate) host_config: HostConfig,
}

/// The response to a create request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Created {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) warnings: Vec<String>,
}

/// The state of an exec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Exec {
    pub(crate) running: bool,
    pub(crate) exit_code: Option<i32>,
    pub(crate) pid: i32,
}

/// An entry of `GET /images/json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ImageSummary {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) repo_tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) repo_digests: Vec<String>,
    pub(crate) size: i64,
}

/// The response to `GET /images/NAME/json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Image {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) repo_tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) repo_digests: Vec<String>,
    pub(crate) created: Option<String>,
    pub(crate) author: String,
    pub(crate) architecture: String,
    pub(crate) os: String,
    pub(crate) size: i64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) config: ImageConfig,
    #[serde(rename = "RootFS")]
    pub(crate) root_fs: Value,
}

/// The defaults that an image sets for its containers.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ImageConfig {
    #[serde(deserialize_with = "or_default")]
    pub(crate) user: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) env: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) entrypoint: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cmd: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) working_dir: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) volumes: BTreeMap<String, Value>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) exposed_ports: BTreeMap<String, Value>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) stop_signal: String,
}

/// An event of the engine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    #[serde(rename = "Action")]
    pub(crate) action: String,
    #[serde(rename = "Actor")]
    pub(crate) actor: Actor,
    #[serde(rename = "timeNano")]
    pub(crate) time_nano: i64,
}

/// The object of an event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Actor {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: BTreeMap<String, String>,
}

/// Disk usage of the engine's objects.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct DiskUsage {
    pub(crate) layers_size: i64,
    /// Usage of images, where newer engines report it.
    #[serde(deserialize_with = "or_default")]
    pub(crate) image_usage: Usage,
}

/// Disk usage of one kind of object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Usage {
    pub(crate) total_size: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_empty() {
        let text = r#"{"Id":"a","Config":{"Env":null,"Cmd":null,"Labels":null},"GraphDriver":null,
            "HostConfig":{"Binds":null,"Memory":5,"MaskedPaths":null},"Mounts":null}"#;
        let container: Container = serde_json::from_str(text).unwrap();
        assert_eq!(container.host_config.resources.memory, 5);
        assert!(container.config.env.is_empty() && container.config.cmd.is_none());
    }

    #[test]
    fn what_newer_engines_leave_out_is_empty() {
        // API 1.52 on: addresses by network alone, no storage driver's directories, an image's
        // settings only where it has some.
        let text = r#"{"Id":"a","NetworkSettings":{"SandboxID":"b","Ports":{},"Networks":{"bridge":
            {"IPAddress":"172.17.0.2","GlobalIPv6Address":"fd00::2"}}},
            "Storage":{"RootFS":{"Snapshot":{"Name":"overlayfs"}}}}"#;
        let container: Container = serde_json::from_str(text).unwrap();
        assert!(container.network_settings.ip_address.is_empty());
        assert_eq!(
            container.network_settings.networks["bridge"].ip_address,
            "172.17.0.2"
        );
        assert!(container.graph_driver.data.is_empty());
        let text = r#"{"Id":"sha256:a","Size":5,"Config":{},"Descriptor":{"size":1}}"#;
        let image: Image = serde_json::from_str(text).unwrap();
        assert!(image.config.cmd.is_empty() && image.created.is_none());
        // API 1.53 on: no sum over the layers.
        let text = r#"{"Images":[],"ImageUsage":{"TotalSize":7,"TotalCount":1}}"#;
        let usage: DiskUsage = serde_json::from_str(text).unwrap();
        assert_eq!((usage.layers_size, usage.image_usage.total_size), (0, 7));
        // API 1.52 on: events without their old names.
        let text = r#"{"Type":"container","Action":"die","Actor":{"ID":"a","Attributes":
            {"exitCode":"3"}},"scope":"local","time":1,"timeNano":1000000005}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!((&*event.actor.id, event.time_nano), ("a", 1_000_000_005));
    }

    #[test]
    fn empty_lists_of_hidden_paths_are_told() {
        let body = CreateBody {
            host_config: HostConfig {
                masked_paths: Some(Vec::new()),
                ..HostConfig::default()
            },
            ..CreateBody::default()
        };
        let json = serde_json::to_value(&body).unwrap();
        assert_eq!(json["HostConfig"]["MaskedPaths"], serde_json::json!([]));
        assert!(json["HostConfig"].get("ReadonlyPaths").is_none());
        assert!(json["HostConfig"].get("Memory").is_none());
    }
}
