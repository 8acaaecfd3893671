//! Details of one pod, and the environment of one of its containers.

use std::path::Path;

use orlop_cri_api::client::Connection;
use orlop_cri_api::extensions::{ListAttachmentsRequest, PodAttachment};
use orlop_cri_api::v1::{
    ContainerFilter, ContainerState, ContainerStatus, LinuxContainerResources, Mount,
    MountPropagation, PodSandbox, PodSandboxStatus, Signal,
};
use serde_json::{Value, json};

use super::info::Info;
use crate::asked::{AskError, Told, own};
use crate::bounded::{MOST, cut, filled, map};
use crate::live::{Network, container_json, pod_json};

/// Annotation by kubectl that may contain secrets.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the details of a pod.
pub(crate) async fn pod(cri: &Connection, id: &str) -> Told {
    let client = cri.runtime();
    let answer = client.pod_sandbox_status(id, true).await?;
    let status = answer.status.unwrap_or_default();
    let filter = ContainerFilter {
        pod_sandbox_id: status.id.clone(),
        ..ContainerFilter::default()
    };
    let mut listed = client.list_containers(Some(filter)).await?;
    listed.sort_by(|a, b| a.created_at.cmp(&b.created_at).then(a.id.cmp(&b.id)));
    let from = listed.len().saturating_sub(MOST);
    let (mut short, mut containers) = (Vec::new(), Vec::new());
    let (mut logs, mut cgroup) = (None, None);
    for container in &listed[from..] {
        let answer = match client.container_status(&container.id, true).await {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        let status = answer.status.unwrap_or_default();
        let info = Info::of(&answer.info);
        logs = logs.or_else(|| log_directory(&status.log_path));
        let path = info.text("/runtimeSpec/linux/cgroupsPath");
        cgroup = cgroup.or_else(|| parent_of_cgroup(path?));
        short.push(container_json(&status));
        containers.push(whole(&status, &info));
    }
    let info = Info::of(&answer.info);
    let attached = attachment(cri, &status.id).await?;
    let ports = match &attached {
        Some(attached) => host_ports(attached),
        None => info.ports(),
    };
    let netns = attached.as_ref().map(|attached| attached.netns.as_str());
    let netns = netns.filter(|path| !path.is_empty());
    let dns = info.at("/config/dns_config").is_object().then(|| {
        json!({
            "servers": info.texts("/config/dns_config/servers").unwrap_or_default(),
            "searches": info.texts("/config/dns_config/searches").unwrap_or_default(),
            "options": info.texts("/config/dns_config/options").unwrap_or_default(),
        })
    });
    let mut annotations = status.annotations.clone();
    annotations.remove(LAST_APPLIED);
    let network = Network::of(&status);
    Ok(json!({
        "pod": pod_json(&listed_as(&status), &network, short),
        "annotations": map(&annotations),
        "cgroup": info.text("/config/linux/cgroup_parent").or(cgroup.as_deref()),
        "log_directory": info.text("/config/log_directory").or(logs.as_deref()),
        "netns": netns.or(info.network_namespace()),
        "ports": ports,
        "dns": dns,
        "sandbox_overhead": sandbox_overhead(&info),
        "containers": containers,
    }))
}

/// Returns the environment of a container of the pod.
pub(crate) async fn environment(cri: &Connection, pod: &str, container: &str) -> Told {
    if container.is_empty() {
        let what = "the container is missing; use environment?container=ID";
        return Err(AskError::Wrong(what.to_owned()));
    }
    let client = cri.runtime();
    let filter = ContainerFilter {
        id: container.to_owned(),
        pod_sandbox_id: pod.to_owned(),
        ..ContainerFilter::default()
    };
    let listed = client.list_containers(Some(filter)).await?;
    let Some(found) = listed.iter().find(|one| one.pod_sandbox_id == pod) else {
        return Err(AskError::NotThere(
            "the pod has no such container".to_owned(),
        ));
    };
    let answer = client.container_status(&found.id, true).await?;
    let info = Info::of(&answer.info);
    let variables = info.environment().ok_or_else(|| {
        AskError::Unknown("the container status does not include the environment".to_owned())
    })?;
    let variables = variables.into_iter();
    let variables =
        variables.map(|(name, value)| json!({ "name": cut(name), "value": cut(value) }));
    Ok(json!({ "variables": variables.collect::<Vec<_>>() }))
}

fn listed_as(status: &PodSandboxStatus) -> PodSandbox {
    PodSandbox {
        id: status.id.clone(),
        metadata: status.metadata.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
        runtime_handler: status.runtime_handler.clone(),
    }
}

/// Formats a container with all details, but only the names of its environment variables.
fn whole(status: &ContainerStatus, info: &Info) -> Value {
    let mut told = container_json(status);
    let mounts = status.mounts.iter().take(MOST).map(mount);
    told["mounts"] = mounts.collect();
    let linux = status.resources.as_ref().and_then(|its| its.linux.as_ref());
    told["resources"] = linux.map(resources).unwrap_or_default();
    let user = status.user.as_ref().and_then(|user| user.linux.as_ref());
    let user = user.map(|user| format!("{}:{}", user.uid, user.gid));
    let of_spec = || {
        let user = info.at("/runtimeSpec/process/user");
        Some(format!(
            "{}:{}",
            user["uid"].as_i64()?,
            user["gid"].as_i64()?
        ))
    };
    told["user"] = user.or_else(of_spec).into();
    told["log_path"] = filled(&status.log_path);
    let signal = status.stop_signal();
    let signal = (signal != Signal::RuntimeDefault).then(|| signal.as_str_name());
    told["stop_signal"] = signal.into();
    told["command"] = info.command().into();
    let environment = info.environment();
    let names =
        |all: Vec<(&str, &str)>| -> Value { all.iter().map(|(name, _)| cut(name)).collect() };
    told["environment"] = environment.map(names).unwrap_or_default();
    // CRI-O also reports the PID of an exited process.
    let has_ended = status.state() == ContainerState::ContainerExited;
    told["pid"] = info.pid().filter(|_| !has_ended).into();
    told
}

fn mount(mount: &Mount) -> Value {
    let propagation = match mount.propagation() {
        MountPropagation::PropagationPrivate => "private",
        MountPropagation::PropagationHostToContainer => "host to container",
        MountPropagation::PropagationBidirectional => "bidirectional",
    };
    let image = mount.image.as_ref().map(|image| filled(&image.image));
    json!({
        "host": cut(&mount.host_path),
        "container": cut(&mount.container_path),
        "readonly": mount.readonly,
        "propagation": propagation,
        "image": image,
    })
}

/// Formats resource limits. Zero is no limit.
fn resources(linux: &LinuxContainerResources) -> Value {
    let set = |value: i64| (value != 0).then_some(value);
    json!({
        "cpu_quota": set(linux.cpu_quota),
        "cpu_period": set(linux.cpu_period),
        "cpu_shares": set(linux.cpu_shares),
        "memory_limit": set(linux.memory_limit_in_bytes),
        "swap_limit": set(linux.memory_swap_limit_in_bytes),
        "cpuset": filled(&linux.cpuset_cpus),
        "oom_score_adj": linux.oom_score_adj,
    })
}

/// Formats the pod overhead, as declared by the client that created it.
fn sandbox_overhead(info: &Info) -> Value {
    let overhead = [info.at("/overhead"), info.at("/config/linux/overhead")];
    let overhead = overhead.into_iter().find(|overhead| overhead.is_object());
    let number = |name: &str, other: &str| {
        let overhead = overhead?;
        let value = overhead.get(name).or_else(|| overhead.get(other))?;
        // 64-bit numbers are strings in protobuf's JSON.
        let text = value.as_str().and_then(|text| text.parse().ok());
        value.as_i64().or(text).filter(|value| *value != 0)
    };
    let cpu = number("cpuQuota", "cpu_quota");
    let memory = number("memoryLimitInBytes", "memory_limit_in_bytes");
    match (cpu, memory) {
        (None, None) => Value::Null,
        _ => json!({ "cpu_quota": cpu, "memory_limit": memory }),
    }
}

/// Returns the log directory of the pod: kubelet logs are `<pod's directory>/<container>/<number>.log`.
fn log_directory(log: &str) -> Option<String> {
    let path = Path::new(log);
    let directory = path.parent()?.parent()?;
    let directory = directory.to_str().filter(|text| text.len() > 1)?;
    Some(cut(directory).to_owned())
}

/// Returns the pod's cgroup, the parent of its containers'; systemd's format is `SLICE:PREFIX:NAME`.
fn parent_of_cgroup(path: &str) -> Option<String> {
    if let [slice, _, _] = *path.split(':').collect::<Vec<_>>() {
        return Some(slice.to_owned());
    }
    let parent = Path::new(path).parent()?.to_str()?;
    Some(parent.to_owned())
}

/// Returns the network attachment of the pod, if the endpoint reports it.
async fn attachment(cri: &Connection, pod: &str) -> Result<Option<PodAttachment>, AskError> {
    let request = ListAttachmentsRequest {
        pod_sandbox_id: pod.to_owned(),
        verbose: false,
    };
    let mut client = cri.orlop_networks();
    match own(client.list_attachments(request)).await {
        Ok(answer) => Ok(answer.attachments.into_iter().next()),
        Err(error) if error.is_gone() => Err(error),
        Err(_) => Ok(None),
    }
}

fn host_ports(attachment: &PodAttachment) -> Vec<Value> {
    let ports = attachment.host_ports.iter().take(MOST);
    ports
        .map(|port| {
            json!({
                "protocol": cut(&port.protocol),
                "host_ip": cut(&port.host_ip),
                "host_port": port.host_port,
                "container_port": port.container_port,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(value: Value) -> Info {
        Info::of(&[("info".to_owned(), value.to_string())].into())
    }

    #[test]
    fn of_an_environment_the_names_are_told_and_no_value() {
        let info = info(json!({
            "pid": 7,
            "config": { "envs": [{ "key": "TOKEN", "value": "hunter2" }] },
            "runtimeSpec": {
                "process": { "args": ["sh"], "env": ["TOKEN=hunter2", "PATH=/bin"], "user": { "uid": 1, "gid": 2 } },
                "annotations": { "secret": "hunter2" },
            },
        }));
        let told = whole(&ContainerStatus::default(), &info);
        assert!(!told.to_string().contains("hunter2"));
        assert_eq!(told["environment"], json!(["TOKEN", "PATH"]));
        assert_eq!((&told["pid"], &told["user"]), (&json!(7), &json!("1:2")));
        assert_eq!(told["command"], json!(["sh"]));
    }

    #[test]
    fn a_pod_s_places_follow_from_its_containers() {
        assert_eq!(
            parent_of_cgroup("/kubepods/pod1/abc").unwrap(),
            "/kubepods/pod1"
        );
        assert_eq!(
            parent_of_cgroup("pod1.slice:orlop:abc").unwrap(),
            "pod1.slice"
        );
        assert_eq!(
            log_directory("/var/log/pods/a/main/0.log").unwrap(),
            "/var/log/pods/a"
        );
        assert_eq!(log_directory(""), None);
    }

    #[test]
    fn containerd_s_configuration_of_a_pod_is_understood() {
        let info = info(json!({
            "config": {
                "port_mappings": [{ "container_port": 80, "host_port": 8080 }, { "protocol": 1, "container_port": 53 }],
                "linux": { "overhead": { "memory_limit_in_bytes": 5 } },
            },
            "runtimeSpec": { "linux": { "namespaces": [{ "type": "network", "path": "/run/netns/a" }] } },
        }));
        assert_eq!(info.network_namespace(), Some("/run/netns/a"));
        let ports = info.ports();
        assert_eq!(
            (&ports[0]["protocol"], &ports[1]["protocol"]),
            (&json!("tcp"), &json!("udp"))
        );
        assert_eq!(
            sandbox_overhead(&info),
            json!({ "cpu_quota": null, "memory_limit": 5 })
        );
    }
}
