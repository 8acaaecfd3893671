//! Resources of a pod, as containerd sends them to controllers: the Go structures of the CRI in JSON.

use orlop_containerd_api::Any;
use orlop_cri_api::v1::{LinuxContainerResources, UpdatePodSandboxResourcesRequest};
use serde_json::{Map, Value, json};

/// The name and type of the extension.
const NAME: &str = "updated-resources";
const KIND: &str = "io.containerd.cri.v1/UpdatedResources";

/// Builds the entry of the extensions with the resources.
pub(super) fn extension(request: &UpdatePodSandboxResourcesRequest) -> (String, Any) {
    let of = |resources: &Option<_>| resources.as_ref().map_or(Value::Null, resources_in);
    let said = json!({"Overhead": of(&request.overhead), "Resources": of(&request.resources)});
    let any = Any {
        type_url: KIND.into(),
        value: said.to_string().into(),
    };
    (NAME.into(), any)
}

fn resources_in(resources: &LinuxContainerResources) -> Value {
    let mut said = Map::new();
    for (name, value) in [
        ("cpu_period", resources.cpu_period),
        ("cpu_quota", resources.cpu_quota),
        ("cpu_shares", resources.cpu_shares),
        ("memory_limit_in_bytes", resources.memory_limit_in_bytes),
        ("oom_score_adj", resources.oom_score_adj),
        (
            "memory_swap_limit_in_bytes",
            resources.memory_swap_limit_in_bytes,
        ),
    ] {
        if value != 0 {
            said.insert(name.into(), value.into());
        }
    }
    for (name, value) in [
        ("cpuset_cpus", &resources.cpuset_cpus),
        ("cpuset_mems", &resources.cpuset_mems),
    ] {
        if !value.is_empty() {
            said.insert(name.into(), value.clone().into());
        }
    }
    let pages: Vec<Value> = resources
        .hugepage_limits
        .iter()
        .map(|page| json!({"page_size": page.page_size, "limit": page.limit}))
        .collect();
    if !pages.is_empty() {
        said.insert("hugepage_limits".into(), pages.into());
    }
    if !resources.unified.is_empty() {
        said.insert("unified".into(), json!(resources.unified));
    }
    said.into()
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::Message;
    use orlop_cri_api::v1::{
        HugepageLimit, LinuxContainerResources, UpdatePodSandboxResourcesRequest,
    };

    use super::extension;

    fn request() -> UpdatePodSandboxResourcesRequest {
        UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: "p1".into(),
            resources: Some(LinuxContainerResources {
                cpu_quota: -1,
                memory_limit_in_bytes: 64 << 20,
                cpuset_cpus: "0-1".into(),
                hugepage_limits: vec![HugepageLimit {
                    page_size: "2MB".into(),
                    limit: 7,
                }],
                ..LinuxContainerResources::default()
            }),
            ..UpdatePodSandboxResourcesRequest::default()
        }
    }

    #[test]
    fn resources_are_told_in_the_words_of_go() {
        let (name, told) = extension(&request());
        assert_eq!(name, "updated-resources");
        assert_eq!(told.type_url, "io.containerd.cri.v1/UpdatedResources");
        let said: serde_json::Value = serde_json::from_slice(&told.value).unwrap();
        let wanted = serde_json::json!({"Overhead": null, "Resources": {
            "cpu_quota": -1, "memory_limit_in_bytes": 67_108_864, "cpuset_cpus": "0-1",
            "hugepage_limits": [{"page_size": "2MB", "limit": 7}],
        }});
        assert_eq!(said, wanted);
    }

    #[test]
    fn fuzzed_resources_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(request().encode_to_vec())
            .run(|input| {
                if let Ok(request) = UpdatePodSandboxResourcesRequest::decode(input) {
                    drop(extension(&request));
                }
            });
    }
}
