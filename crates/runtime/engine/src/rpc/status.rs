//! `Status`: returns whether pods can run here, and the features of the runtime handlers.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_cri_api::v1::{
    RuntimeCondition, RuntimeFeatures, RuntimeHandler, RuntimeHandlerFeatures, RuntimeStatus,
    StatusRequest, StatusResponse,
};
use orlop_network::Networks;
use serde_json::{Value, json};

use crate::config::{Config, RuntimeKind, Sandboxer};
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::node::runtimes::{Handler, Runtimes};
use crate::spec::HostFacts;
use crate::{blocking, nri};

/// Time limit for a runtime to report its version.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Handles the `Status` call.
pub async fn call(Engine(node): &Engine, request: StatusRequest) -> Result<StatusResponse> {
    let handlers = handlers(&node.host, &node.runtimes);
    Ok(StatusResponse {
        status: Some(RuntimeStatus {
            conditions: vec![
                runtime_ready(&node.config()).await,
                network_ready(&node.networks).await,
            ],
        }),
        info: if request.verbose {
            info(node).await
        } else {
            HashMap::new()
        },
        features: Some(RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: has_users(&handlers),
            mount_options: true,
        }),
        runtime_handlers: handlers,
    })
}

/// Checks that the daemon's directories are writable. The daemon does not start without a working runtime and a
/// writable disk, but a disk may fail later.
async fn runtime_ready(config: &Config) -> RuntimeCondition {
    let config = config.clone();
    let probed = blocking(move || {
        for (what, dir) in [
            ("root", config.root),
            ("containers root", config.containers_root),
            ("state", config.state),
        ] {
            let doing = format!("writing to the {what} directory {}", dir.display());
            orlop_fs::probe(&dir).map_err(Error::io(doing))?;
        }
        Ok(())
    });
    let (status, reason, message) = match probed.await {
        Ok(()) => (true, "", String::new()),
        Err(error) => (false, "DiskNotWritable", told_of_disk(&chain(&*error))),
    };
    RuntimeCondition {
        r#type: "RuntimeReady".into(),
        status,
        reason: reason.into(),
        message,
    }
}

fn told_of_disk(error: &str) -> String {
    format!(
        "{error}: running pods continue, but new pods cannot start; see the kernel log for the \
         reason, repair the disk and mount it again"
    )
}

async fn network_ready(networks: &Networks) -> RuntimeCondition {
    let (status, reason, message) = match networks.status().await {
        orlop_network::Status::Ready { warnings } => (true, String::new(), warnings.join("; ")),
        orlop_network::Status::NotReady { reason, message } => (false, reason.into(), message),
    };
    RuntimeCondition {
        r#type: "NetworkReady".into(),
        status,
        reason,
        message,
    }
}

/// Lists the runtime handlers. The kubelet also looks for the default handler under the empty name.
fn handlers(host: &HostFacts, runtimes: &Runtimes) -> Vec<RuntimeHandler> {
    let (all, default) = (runtimes.all(), runtimes.default_name());
    let default = all.iter().filter(|one| one.name == default);
    let entry = |name: &str, handler: &Handler| RuntimeHandler {
        name: name.to_owned(),
        features: Some(RuntimeHandlerFeatures {
            recursive_read_only_mounts: handler.features.recursive_read_only(),
            user_namespaces: handler.features.user_namespaces() && host.mapped_layers,
        }),
    };
    default
        .map(|handler| entry("", handler))
        .chain(all.iter().map(|handler| entry(&handler.name, handler)))
        .collect()
}

/// Whether pods can have user namespaces, which then work with the host network, too.
fn has_users(handlers: &[RuntimeHandler]) -> bool {
    let mut features = handlers.iter().filter_map(|it| it.features.as_ref());
    features.any(|features| features.user_namespaces)
}

/// Returns the name, kind and version of a handler; the version is null if the runtime does not report one.
async fn handler_facts(handler: &Handler) -> (String, Value) {
    let version = handler.runtime.version(ANSWER_LIMIT).await;
    let (kind, controller, address) = match &handler.settings.kind {
        RuntimeKind::Oci => ("oci", None, None),
        RuntimeKind::Sandboxed => ("sandboxed", None, None),
        RuntimeKind::Shim { sandboxer, .. } => match sandboxer {
            Sandboxer::Podsandbox => ("shim", Some("podsandbox"), None),
            Sandboxer::Shim => ("shim", Some("shim"), None),
            Sandboxer::Proxy { address, name } => ("proxy", Some(name.as_str()), Some(address)),
        },
    };
    let facts = json!({
        "kind": kind,
        "program": handler.settings.path,
        "root": handler.runtime.root,
        "version": version.ok(),
        "controller": controller,
        "address": address,
    });
    (handler.name.clone(), facts)
}

async fn info(node: &Node) -> HashMap<String, String> {
    let (config, handlers) = (node.config(), node.runtimes.all());
    let handlers = join_all(handlers.iter().map(|handler| handler_facts(handler))).await;
    let handlers: HashMap<_, _> = handlers.into_iter().collect();
    let config = json!({
        "root": config.root,
        "containersRoot": config.containers_root,
        "state": config.state,
        "keeper": config.keeper,
        "cgroupDriver": format!("{:?}", node.cgroups.driver()).to_lowercase(),
        "defaultRuntime": node.runtimes.default_name(),
        "runtimes": handlers,
        "pods": node.pods.all().len(),
        "containers": node.containers.all().len(),
        "lazyImages": config.images.lazy.enabled,
        "lazyLayers": node.images.lazy_counts().layers,
    });
    HashMap::from([
        ("config".to_owned(), config.to_string()),
        ("nri".to_owned(), nri::in_json(&node.nri).to_string()),
    ])
}
