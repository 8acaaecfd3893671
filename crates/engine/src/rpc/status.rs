//! `Status`: whether pods can be run here, and what their handlers can do.

use std::collections::HashMap;

use orlop_cri::v1::{
    RuntimeCondition, RuntimeFeatures, RuntimeHandler, RuntimeHandlerFeatures, RuntimeStatus,
    StatusRequest, StatusResponse,
};
use serde_json::json;

use crate::blocking;
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::runtimes::Handler;

/// Answers the call.
pub async fn call(engine: &Engine, request: StatusRequest) -> Result<StatusResponse> {
    Ok(StatusResponse {
        status: Some(RuntimeStatus {
            conditions: vec![runtime_ready(engine).await, network_ready(engine).await],
        }),
        info: if request.verbose {
            info(engine)
        } else {
            HashMap::new()
        },
        runtime_handlers: handlers(engine),
        features: Some(RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: false,
            mount_options: true,
        }),
    })
}

/// The daemon does not start without a runtime that works, nor without a disk that it can write to;
/// but a disk may fail later.
async fn runtime_ready(engine: &Engine) -> RuntimeCondition {
    let (root, state) = (engine.config.root.clone(), engine.config.state.clone());
    let probed = blocking(move || {
        for (what, dir) in [("root", root), ("state", state)] {
            let doing = format!("writing to the {what} directory {}", dir.display());
            orlop_disk::probe(&dir).map_err(Error::io(doing))?;
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
        "{error}: pods that run go on, others cannot be run; the kernel's log has the reason, mend \
         the disk and mount it anew"
    )
}

async fn network_ready(engine: &Engine) -> RuntimeCondition {
    let (status, reason, message) = match engine.networks.status().await {
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

/// The kubelet looks for the default handler under the empty name, too.
fn handlers(engine: &Engine) -> Vec<RuntimeHandler> {
    let default = engine
        .runtimes
        .all()
        .filter(|one| one.name == engine.runtimes.default_name());
    let entry = |name: &str, handler: &Handler| RuntimeHandler {
        name: name.to_owned(),
        features: Some(RuntimeHandlerFeatures {
            recursive_read_only_mounts: handler.features.recursive_read_only(),
            user_namespaces: handler.features.user_namespaces() && engine.host.mapped_layers,
        }),
    };
    default
        .map(|handler| entry("", handler))
        .chain(
            engine
                .runtimes
                .all()
                .map(|handler| entry(&handler.name, handler)),
        )
        .collect()
}

fn info(engine: &Engine) -> HashMap<String, String> {
    let handlers: HashMap<_, _> = engine
        .runtimes
        .all()
        .map(|handler| {
            let facts = json!({
                "program": handler.runtime.program,
                "root": handler.runtime.root,
            });
            (handler.name.clone(), facts)
        })
        .collect();
    let config = json!({
        "root": engine.config.root,
        "state": engine.config.state,
        "keeper": engine.config.keeper,
        "cgroupDriver": format!("{:?}", engine.cgroup_driver).to_lowercase(),
        "defaultRuntime": engine.runtimes.default_name(),
        "runtimes": handlers,
        "pods": engine.pods.all().len(),
        "containers": engine.containers.all().len(),
    });
    HashMap::from([
        ("config".to_owned(), config.to_string()),
        ("nri".to_owned(), engine.state_of_plugins().to_string()),
    ])
}
