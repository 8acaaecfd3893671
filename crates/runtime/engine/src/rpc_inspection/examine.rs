//! `Examine`: finds resources that belong to no pod and damaged images, and repairs them on request.

use std::sync::Arc;

use orlop_cri_api::inspection::{ExamineRequest, ExamineResponse, Finding};
use orlop_cri_server::finding::of_network;
use orlop_image_store::Images;
use orlop_nri::{Listen, Nri};

use crate::doctor::orphans;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;

/// Handles the `Examine` call. Repairs continue if the client disconnects.
pub async fn call(Engine(node): &Engine, request: ExamineRequest) -> Result<ExamineResponse> {
    let node_too = Arc::clone(node);
    let findings = node
        .finish(async move { examine(&node_too, request).await })
        .await?;
    Ok(ExamineResponse { findings })
}

async fn examine(node: &Arc<Node>, request: ExamineRequest) -> Result<Vec<Finding>> {
    let mut findings = orphans::examine(node, request.repair).await?;
    findings.push(of_network(&node.networks.status().await));
    findings.extend(plugins(&node.nri));
    if request.images {
        findings.extend(images(&node.images, request.repair).await?);
    }
    Ok(findings)
}

fn plugins(nri: &Nri) -> Option<Finding> {
    const AREA: &str = "nri";
    let config = nri.config()?;
    if let Listen::At(path) = &config.listen
        && !nri.is_listening()
    {
        let text = format!("plugins cannot connect: {} is not served", path.display());
        let remedy = "see the daemon's log; set nri.socket to a path that no other service uses";
        return Some(Finding::warning(AREA, text, remedy));
    }
    let plugins = nri.list();
    let names: Vec<_> = plugins
        .iter()
        .map(|plugin| format!("{}-{}", plugin.index, plugin.name))
        .collect();
    let text = match names.as_slice() {
        [] => "no plugins are registered".to_owned(),
        names => format!("registered plugins: {}", names.join(", ")),
    };
    Some(Finding::ok(AREA, text))
}

async fn images(images: &Images, repair: bool) -> Result<Vec<Finding>> {
    const AREA: &str = "images";
    let verified = images.verify(repair).await;
    let verified = verified.map_err(|source| {
        let doing = "comparing images with their digests".into();
        Error::Image { doing, source }
    })?;
    let (sound, unchecked) = (verified.sound, verified.unchecked);
    let mut findings = vec![Finding::ok(
        AREA,
        format!("layers: {sound} intact, {unchecked} cannot be checked"),
    )];
    for layer in verified.unlabelled {
        let text = format!(
            "layer {} cannot be used by any container: {}",
            layer.diff_id, layer.reason
        );
        let remedy = "fix the node's SELinux policy; another pull does not help";
        findings.push(Finding::problem(AREA, text, remedy));
    }
    for layer in verified.broken {
        let text = format!("layer {} is damaged: {}", layer.diff_id, layer.reason);
        let mut finding = Finding::problem(AREA, text, "run `orlop image verify --repair`");
        finding.repaired = layer.repaired;
        findings.push(finding);
    }
    Ok(findings)
}
