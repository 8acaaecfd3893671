//! `Status`: whether pods can run here, and the features of the runtime handlers.

use std::collections::HashMap;
use std::time::Duration;

use orlop_cri_api::v1::{
    RuntimeCondition, RuntimeFeatures, RuntimeStatus, StatusRequest, StatusResponse,
};
use serde_json::json;

use crate::config::NetworkPlugin;
use crate::error::{Error, Result, chain};
use crate::hairpin;
use crate::shim::Shim;
use crate::view;

/// Timeout of the engine's version call; a slower engine counts as not working.
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) async fn call(shim: &Shim, request: StatusRequest) -> Result<StatusResponse> {
    let readiness = runtime_ready(shim).await;
    let handlers = match (shim.docker.api().await, shim.info.get().await) {
        (Ok(api), Ok(info)) if readiness.status => view::handlers(&info, api),
        _ => Vec::new(),
    };
    Ok(StatusResponse {
        info: if request.verbose {
            info(shim).await
        } else {
            HashMap::new()
        },
        status: Some(RuntimeStatus {
            conditions: vec![readiness, network_ready(shim).await],
        }),
        runtime_handlers: handlers,
        // The engine always adds the image's groups, uses one user namespace for all containers, and supports no
        // further bind mount options.
        features: Some(RuntimeFeatures {
            supplemental_groups_policy: false,
            user_namespaces_host_network: false,
            mount_options: false,
        }),
    })
}

async fn runtime_ready(shim: &Shim) -> RuntimeCondition {
    let answer = match shim.docker.version_info(LIMIT).await {
        Ok(_) => shim.info.cgroup_driver().await.map(drop),
        Err(error) => Err(Error::engine("asking the Docker Engine for its version")(error).into()),
    };
    let (status, reason, message) = match answer {
        Ok(()) => (true, "", String::new()),
        Err(error) => (
            false,
            "DockerDaemonNotReady",
            format!("docker: {}", chain(&*error)),
        ),
    };
    RuntimeCondition {
        r#type: "RuntimeReady".into(),
        status,
        reason: reason.into(),
        message,
    }
}

async fn network_ready(shim: &Shim) -> RuntimeCondition {
    let status = match shim.network.cni() {
        Some(networks) => networks.status().await,
        None => orlop_network::Status::Ready {
            warnings: Vec::new(),
        },
    };
    let (status, reason, message) = match status {
        orlop_network::Status::Ready { warnings } => (true, "", warnings.join("; ")),
        orlop_network::Status::NotReady { reason, message } => (false, reason, message),
    };
    RuntimeCondition {
        r#type: "NetworkReady".into(),
        status,
        reason: reason.into(),
        message,
    }
}

async fn info(shim: &Shim) -> HashMap<String, String> {
    let config = &shim.config;
    let plugin = match config.plugin {
        NetworkPlugin::Cni => "cni",
        NetworkPlugin::None => "none",
        NetworkPlugin::Bridge => "bridge",
    };
    let engine = shim.info.get().await.ok();
    let api = shim.docker.api().await.ok();
    let engine = engine.map(|info| {
        json!({
            "version": info.server_version,
            "api": api.map(|api| api.to_string()),
            "root": info.docker_root_dir,
            "storageDriver": info.driver,
            "cgroupDriver": info.cgroup_driver,
            "liveRestore": info.live_restore_enabled,
            "defaultRuntime": info.default_runtime,
        })
    });
    let config = json!({
        "endpoint": shim.docker.endpoint(),
        "checkpoints": config.root,
        "pauseImage": config.pause_image,
        "networkPlugin": plugin,
        "hairpinMode": format!("{:?}", hairpin::effective(config.hairpin, config.plugin)),
        "logsFollowed": shim.logs.ids().len(),
        "engine": engine,
    });
    HashMap::from([("config".to_owned(), config.to_string())])
}
