//! What happened before this run, as far as the engine has it on record: kept for who asks, and told to those
//! who listened to an earlier run.
//!
//! It is found out beside what happens now, pod by pod: an engine that hangs over one container keeps nobody
//! from hearing of the others.

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

/// Pods that the engine is asked about at a time.
const SIDE_BY_SIDE: usize = 8;

/// Tells all that there is to tell of what was there at the first look.
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

/// A container, as the engine tells of it within some time; `None` if it does not.
pub(crate) async fn inspected(docker: &Docker, id: &str, patience: Duration) -> Option<Container> {
    let asked = persist(patience, || docker.container(id), |error| Some(error)).await;
    // One that is removed meanwhile is told of as such.
    asked
        .inspect_err(|problem| {
            tracing::debug!(container = id, problem, "cannot inspect the container");
        })
        .ok()
}

/// What the engine has on record of a container's life: what, when, and what there is to be said of it.
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
