//! A pod's network attachment, which is recorded before it is created.

use orlop_network::{Attachment, Networks, PodNetwork};

use crate::error::{Error, Result};
use crate::record::pod::{Event, Pod};

/// Attaches a pod to the network. Records the attachment first if `is_news`.
pub async fn attach(
    networks: &Networks,
    pod: &Pod,
    attachment: Box<Attachment>,
    is_news: bool,
) -> Result<Box<PodNetwork>> {
    if is_news {
        let attachment = attachment.clone();
        pod.record(Event::Attaching { attachment }).await?;
    }
    let attached = networks.attach(*attachment).await;
    let network = attached.map_err(|source| Error::Network {
        doing: format!("attaching pod {} to the network", pod.id),
        source,
    })?;
    Ok(Box::new(network))
}

/// Detaches a pod, if an attachment was ever started. May be repeated.
pub async fn detach(networks: &Networks, pod: &Pod) -> Result<()> {
    let now = pod.now();
    let Some(attachment) = now.attachment else {
        return Ok(());
    };
    let done = match &now.network {
        Some(network) => networks.detach(&attachment, Some(network)).await,
        None => networks.detach_noted(&attachment).await,
    };
    done.map_err(|source| Error::Network {
        doing: format!("detaching pod {} from the network", pod.id),
        source,
    })?;
    pod.record_if_possible(Event::Detached).await;
    Ok(())
}
