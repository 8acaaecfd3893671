//! Sends the node's state to a new plugin, in as many messages as needed.

use std::time::{Duration, Instant};

use prost::Message as _;

use crate::frame::MAX_MESSAGE;
use crate::plugin::Plugin;
use crate::v1alpha1::{
    Container, ContainerUpdate, PodSandbox, SynchronizeRequest, SynchronizeResponse,
};

/// Size reserved for the fields around the pods and containers of a message.
const MARGIN: usize = 64 << 10;

/// Size limit of the pods and containers in a message.
const PART: usize = MAX_MESSAGE - MARGIN;

/// Sends all pods and containers to a plugin, and returns the updates that it requests.
pub(crate) async fn synchronize(
    plugin: &Plugin,
    pods: Vec<PodSandbox>,
    containers: Vec<Container>,
    limit: Duration,
) -> Result<Vec<ContainerUpdate>, String> {
    let end = Instant::now() + limit;
    for part in parts(pods, containers, PART) {
        let left = end.saturating_duration_since(Instant::now());
        let answer = plugin.call::<SynchronizeResponse>("Synchronize", &part, left);
        let answer = answer
            .await
            .map_err(|error| format!("cannot send it the node's state: {error}"))?;
        if !part.more {
            return Ok(answer.update);
        }
        if !answer.more || !answer.update.is_empty() {
            return Err(
                "it cannot receive the node's state in several messages, and the state is too \
                 large for one; it needs a newer NRI library"
                    .to_owned(),
            );
        }
    }
    Ok(Vec::new())
}

/// Distributes pods and containers to messages. There is at least one, and all but the last set `more`.
fn parts(
    pods: Vec<PodSandbox>,
    containers: Vec<Container>,
    size: usize,
) -> Vec<SynchronizeRequest> {
    let mut parts = vec![SynchronizeRequest::default()];
    let mut used = 0;
    let mut room = |parts: &mut Vec<SynchronizeRequest>, length: usize| {
        // Plus the field's tag and length.
        let length = length + 8;
        if used > 0 && used + length > size {
            parts.push(SynchronizeRequest::default());
            used = 0;
        }
        used += length;
    };
    for pod in pods {
        room(&mut parts, pod.encoded_len());
        if let Some(part) = parts.last_mut() {
            part.pods.push(pod);
        }
    }
    for container in containers {
        room(&mut parts, container.encoded_len());
        if let Some(part) = parts.last_mut() {
            part.containers.push(container);
        }
    }
    let last = parts.len() - 1;
    for part in &mut parts[..last] {
        part.more = true;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_all_in_order_and_none_is_too_large() {
        let pods: Vec<_> = (0..50)
            .map(|n| PodSandbox {
                id: format!("pod-{n}"),
                ..PodSandbox::default()
            })
            .collect();
        let containers: Vec<_> = (0..200)
            .map(|n| Container {
                id: format!("container-{n}"),
                env: vec!["X".repeat(n)],
                ..Container::default()
            })
            .collect();
        let made = parts(pods.clone(), containers.clone(), 2000);
        assert!(made.len() > 5);
        assert!(made.iter().all(|part| part.encoded_len() <= 2010));
        let more: Vec<bool> = made.iter().map(|part| part.more).collect();
        assert!(more[..more.len() - 1].iter().all(|more| *more) && !more[more.len() - 1]);
        let all_pods: Vec<_> = made.iter().flat_map(|part| part.pods.clone()).collect();
        let all_containers: Vec<_> = made
            .iter()
            .flat_map(|part| part.containers.clone())
            .collect();
        assert_eq!((all_pods, all_containers), (pods, containers));

        assert_eq!(
            parts(Vec::new(), Vec::new(), 2000),
            [SynchronizeRequest::default()],
            "an empty node is told, too"
        );
    }
}
