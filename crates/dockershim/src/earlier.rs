//! Events from before this run, reconstructed from the engine's records. They go into the event history and to the
//! subscribers of an earlier run.
//!
//! This happens in parallel to current events, pod by pod: if the engine hangs on one container, the events of the
//! others are not delayed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::v1::ContainerEventType as Type;

use crate::docker::Docker;
use crate::docker::types::{Actor, Container, ContainerSummary};
use crate::events::{Events, Happened};
use crate::listed::{Stage, attributes};
use crate::retry::{PATIENCE, persist};
use crate::{clock, labels};

/// Number of pods inspected in parallel.
const SIDE_BY_SIDE: usize = 8;

/// Publishes the past events of the containers in the first list.
pub(crate) async fn tell(docker: &Docker, events: &Events, listed: &[ContainerSummary]) {
    let mut pods: BTreeMap<&str, Vec<ContainerSummary>> = BTreeMap::new();
    for one in listed {
        let own = labels::own(&one.labels, labels::SANDBOX_ID);
        let members = pods.entry(own.unwrap_or(&one.id)).or_default();
        members.push(one.clone());
    }
    let pods: Vec<_> = pods.into_values().collect();
    stream::iter(pods)
        .for_each_concurrent(SIDE_BY_SIDE, |members| async move {
            tell_of_pod(docker, events, &members).await;
        })
        .await;
}

async fn tell_of_pod(docker: &Docker, events: &Events, members: &[ContainerSummary]) {
    let is_sandbox =
        |one: &&ContainerSummary| labels::own(&one.labels, labels::SANDBOX_ID).is_none();
    let sandbox = members.iter().find(is_sandbox).map(attributes);
    let mut earlier = Vec::new();
    for one in members {
        if let Some(found) = inspected(docker, &one.id, PATIENCE).await {
            earlier.extend(life_of(one, &found));
        }
    }
    earlier.sort_by_key(|(at, what, _)| (*at, *what as i32));
    let happened: Vec<_> = earlier
        .iter()
        .map(|(at, what, whom)| Happened {
            what: *what,
            at: *at,
            whom,
            sandbox: sandbox.as_ref(),
        })
        .collect();
    events.tell_earlier(&happened).await;
}

/// Inspects a container with a timeout; `None` if the engine does not answer.
pub(crate) async fn inspected(docker: &Docker, id: &str, patience: Duration) -> Option<Container> {
    let asked = persist(patience, || docker.container(id), |error| Some(error)).await;
    // If the container was removed meanwhile, its own event reports that.
    asked
        .inspect_err(|problem| {
            tracing::debug!(container = id, problem, "cannot inspect the container");
        })
        .ok()
}

/// Returns the events of a container's life that the engine has on record.
fn life_of(
    listed: &ContainerSummary,
    found: &Container,
) -> impl Iterator<Item = (i64, Type, Actor)> {
    let whom = Actor {
        id: listed.id.clone(),
        attributes: attributes(listed),
    };
    let mut ended = whom.clone();
    let code = found.state.exit_code.to_string();
    ended.attributes.insert("exitCode".into(), code);
    let finished = match Stage::of(listed) {
        Stage::Ended => found.state.finished_at.as_str(),
        Stage::Created | Stage::Running => "",
    };
    let times = [
        (&*found.created, Type::ContainerCreatedEvent, &whom),
        (&*found.state.started_at, Type::ContainerStartedEvent, &whom),
        (finished, Type::ContainerStoppedEvent, &ended),
    ];
    let known = times.map(|(at, what, whom)| (clock::parse(at), what, whom.clone()));
    known.into_iter().filter(|(at, ..)| *at > 0)
}
