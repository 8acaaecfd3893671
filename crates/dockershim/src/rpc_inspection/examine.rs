//! `Examine`: checks the engine, the network and the records.

use std::time::Duration;

use orlop_cri_api::inspection::{ExamineRequest, ExamineResponse, Finding};
use orlop_cri_api::v1::StopPodSandboxRequest;
use orlop_cri_server::finding::of_network;

use crate::config::NetworkPlugin;
use crate::docker::Which;
use crate::error::{Result, chain};
use crate::labels;
use crate::rpc::stop_pod_sandbox;
use crate::shim::Shim;

/// Timeout of the engine; a slower one counts as not working.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the checks. The engine manages the images, so none are compared here.
pub(crate) async fn call(shim: &Shim, request: ExamineRequest) -> Result<ExamineResponse> {
    let mut findings = engine(shim).await;
    findings.push(network(shim).await);
    match checkpoints(shim, request.repair).await {
        Ok(of_checkpoints) => findings.extend(of_checkpoints),
        // Another finding already reports that the engine is unreachable.
        Err(error) => {
            tracing::debug!(error = %chain(&*error), "cannot check the sandbox checkpoints");
        }
    }
    Ok(ExamineResponse { findings })
}

async fn engine(shim: &Shim) -> Vec<Finding> {
    const AREA: &str = "docker";
    let version = match shim.docker.version_info(PATIENCE).await {
        Ok(version) => version,
        Err(error) => {
            let remedy = "start the Docker Engine, or set docker.endpoint to its socket";
            let text = chain(&error);
            return vec![Finding::problem(AREA, text, remedy)];
        }
    };
    if let Err(error) = shim.info.cgroup_driver().await {
        let remedy = "use the same cgroup driver in both, and restart the service that you changed";
        let text = chain(&*error);
        return vec![Finding::problem(AREA, text, remedy)];
    }
    let text = format!(
        "Docker Engine {} answers on {}",
        version.version,
        shim.docker.endpoint().display()
    );
    let mut findings = vec![Finding::ok(AREA, text)];
    if let Ok(info) = shim.info.get().await
        && info.logging_driver == "none"
    {
        let text = "the engine's log driver is \"none\"; containers have no logs".to_owned();
        let remedy = "set log-driver to json-file, local or journald in the engine's daemon.json";
        findings.push(Finding::warning(AREA, text, remedy));
    }
    if shim.hierarchies.is_none() {
        let text = "no cgroup filesystem is mounted; statistics are not available".to_owned();
        let remedy = "mount cgroup v2 at /sys/fs/cgroup";
        findings.push(Finding::warning("cgroup", text, remedy));
    }
    findings
}

async fn network(shim: &Shim) -> Finding {
    let Some(networks) = shim.network.cni() else {
        let text = match shim.config.plugin {
            NetworkPlugin::None => "pods have no network: `docker.network_plugin` is \"none\"",
            NetworkPlugin::Bridge | NetworkPlugin::Cni => {
                "the Docker Engine manages the pod networks"
            }
        };
        return Finding::ok("network", text);
    };
    of_network(&networks.status().await)
}

/// Finds checkpoints of sandboxes that the engine does not have.
async fn checkpoints(shim: &Shim, repair: bool) -> Result<Vec<Finding>> {
    const AREA: &str = "checkpoints";
    let ids = shim.checkpoints.ids().await?;
    let which = Which {
        labels: vec![labels::filter(labels::KIND, labels::SANDBOX)],
        ..Which::default()
    };
    let listed = shim.docker.list_containers(&which).await;
    let listed = listed.map_err(crate::error::Error::engine("listing pod sandboxes"))?;
    let mut findings = Vec::new();
    for id in ids {
        if listed.iter().any(|one| one.id == id) {
            continue;
        }
        let text = format!("another program removed the sandbox {id}");
        let remedy = "no action is needed if a kubelet runs, because it removes the sandbox; \
                      otherwise, run `orlop doctor --repair`";
        let mut found = Finding::warning(AREA, text, remedy);
        if repair {
            let request = StopPodSandboxRequest { pod_sandbox_id: id };
            found.repaired = stop_pod_sandbox::call(shim, request).await.is_ok();
        }
        findings.push(found);
    }
    Ok(findings)
}
