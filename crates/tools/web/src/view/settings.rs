//! The active configuration, and manifests.

use std::collections::HashMap;
use std::sync::Arc;

use orlop_cri_api::client::Connection;
use orlop_cri_api::v1::PodSandbox;
use serde_json::{Map, Value, json};

use super::configuration;
use super::info::Info;
use crate::asked::{AskError, Told};
use crate::bounded::{LONGEST_TEXT, MOST, cut};
use crate::extras::Extras;

/// Settings from the runtime's configuration that are shown as a summary.
const NAMED: &[&str] = &[
    // orlop
    "root",
    "containersRoot",
    "state",
    "keeper",
    "cgroupDriver",
    "defaultRuntime",
    "runtimes",
    "pods",
    "containers",
    "lazyImages",
    "lazyLayers",
    // containerd
    "rootDir",
    "stateDir",
    "containerdRootDir",
    "containerdEndpoint",
    "sandboxImage",
    "selinuxCategoryRange",
    "enableSelinux",
    "systemdCgroup",
    "maxContainerLogLineSize",
    "maxConcurrentDownloads",
    "disableCgroup",
    "disableApparmor",
    "disableProcMount",
    "restrictOOMScoreAdj",
    "tolerateMissingHugetlbController",
    "disableHugetlbController",
    "unsetSeccompProfile",
    "enableUnprivilegedPorts",
    "enableUnprivilegedICMP",
    "enableCDI",
    "ignoreImageDefinedVolumes",
    "imagePullProgressTimeout",
    "drainExecSyncIOTimeout",
    "cni",
];

/// Settings that are shown for each runtime below these.
const OF_RUNTIMES: &[&str] = &[
    "kind",
    "program",
    "root",
    "version",
    "controller",
    "address",
];
const OF_CNI: &[&str] = &[
    "binDir",
    "confDir",
    "maxConfNum",
    "setupSerially",
    "ipPreference",
];

/// Returns the configuration: the daemon's own if the process is the daemon, else what the endpoint reports.
pub(crate) async fn settings(cri: &Connection, extras: Option<Arc<dyn Extras>>) -> Told {
    let answer = cri.runtime().status(true).await?;
    let info = Info::under(&answer.info, "config");
    let text = match extras {
        Some(extras) => asked(move || extras.settings()).await?,
        None => None,
    };
    let config = info.at("");
    // orlop's verbose information contains no configuration, and is shown below.
    let is_ours = cri.runtime().version().await?.runtime_name == "orlop";
    let told = || configuration::text(config).filter(|_| !is_ours);
    let text = text.or_else(told);
    Ok(json!({ "text": text, "status": named(config) }))
}

/// Returns the manifests with their pods, if the process is a node agent.
pub(crate) async fn manifests(cri: &Connection, extras: Option<Arc<dyn Extras>>) -> Told {
    let manifests = match extras {
        Some(extras) => asked(move || extras.manifests()).await?,
        None => None,
    };
    let Some(mut manifests) = manifests else {
        let what = "only `orlop up` and `orlop node` have manifests";
        return Err(AskError::Unknown(what.to_owned()));
    };
    let mut pods = cri.runtime().list_pod_sandbox(None).await?;
    pods.sort_by_key(|pod| pod.created_at);
    let uid = |pod: PodSandbox| Some((pod.metadata?.uid, pod.id));
    // The latest sandbox of a pod is the current one.
    let ids: HashMap<String, String> = pods.into_iter().filter_map(uid).collect();
    for manifest in manifests.as_array_mut().into_iter().flatten() {
        let id = manifest["uid"].as_str().and_then(|uid| ids.get(uid));
        manifest["pod_id"] = id.cloned().into();
    }
    Ok(json!({ "manifests": manifests }))
}

/// Runs on a blocking thread, as it may read files.
async fn asked<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Result<T, AskError> {
    let answer = orlop_pool::blocking(ask).await;
    answer.map_err(|_| AskError::Failed("the request was interrupted".to_owned()))
}

fn named(config: &Value) -> Value {
    let mut told = Map::new();
    for name in NAMED {
        let value = match (*name, &config[*name]) {
            (_, Value::Null) => continue,
            ("runtimes", Value::Object(all)) => {
                let all = all.iter().take(MOST);
                let all = all.map(|(name, one)| (cut(name).to_owned(), some_of(one, OF_RUNTIMES)));
                Value::Object(all.collect())
            }
            ("cni", one) => some_of(one, OF_CNI),
            (_, one) => plain(one),
        };
        told.insert((*name).to_owned(), value);
    }
    Value::Object(told)
}

fn some_of(value: &Value, names: &[&str]) -> Value {
    let some = names.iter().filter_map(|name| {
        let value = value.get(*name)?;
        Some(((*name).to_owned(), plain(value)))
    });
    Value::Object(some.collect())
}

/// Returns a string or number; other values are left out.
fn plain(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => cut(text).into(),
        Value::Object(_) | Value::Array(_) => Value::Null,
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_not_told() {
        let told = named(&json!({
            "root": "/var/lib/orlop",
            "registry": { "auths": { "host": { "password": "hunter2" } } },
            "runtimes": { "runc": { "program": "/bin/runc", "options": { "env": "hunter2" } } },
            "cni": { "binDir": "/opt", "secret": "hunter2" },
            "sandboxImage": { "nested": "hunter2" },
        }));
        let expected = json!({
            "root": "/var/lib/orlop",
            "runtimes": { "runc": { "program": "/bin/runc" } },
            "cni": { "binDir": "/opt" },
            "sandboxImage": null,
        });
        assert_eq!(told, expected);
    }
}
