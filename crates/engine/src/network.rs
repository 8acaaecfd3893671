//! A pod's attachment to the node's network, written down before it is made.

use std::sync::Arc;

use orlop_network::{Attachment, ContainerId};
use orlop_service::attachment::attachment as asked;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::pod::{Event, Pod};

/// Attaches a pod that has a keeper.
pub async fn attach(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    let attachment = attachment(engine, pod)?;
    pod.record(Event::Attaching {
        attachment: Box::new(attachment.clone()),
    })
    .await?;
    let network = engine
        .networks
        .attach(attachment)
        .await
        .map_err(|source| Error::Network {
            doing: format!("attaching pod {} to the network", pod.id),
            source,
        })?;
    pod.record(Event::Attached {
        network: Box::new(network),
    })
    .await
}

/// Detaches a pod, if it was ever attached or an attachment was begun. May be repeated.
pub async fn detach(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    let now = pod.now();
    let Some(attachment) = now.attachment else {
        return Ok(());
    };
    let done = match &now.network {
        Some(network) => engine.networks.detach(&attachment, Some(network)).await,
        None => engine.networks.detach_noted(&attachment).await,
    };
    done.map_err(|source| Error::Network {
        doing: format!("detaching pod {} from the network", pod.id),
        source,
    })?;
    pod.record_if_possible(Event::Detached).await;
    Ok(())
}

fn attachment(engine: &Engine, pod: &Pod) -> Result<Attachment> {
    let mut attachment =
        asked(container_id(pod)?, engine.net_pin(pod), &pod.config).map_err(Error::from)?;
    let handler = engine.runtimes.handler(&pod.handler)?;
    attachment
        .conf_dir
        .clone_from(&handler.settings.cni_conf_dir);
    Ok(attachment)
}

fn container_id(pod: &Pod) -> Result<ContainerId> {
    pod.id.as_str().parse().map_err(|source| {
        Error::Internal(format!("pod id {} is no name for CNI: {source}", pod.id)).into()
    })
}
