//! What happened before this run, as far as the engine has it on record: kept for who asks, and told to those
//! who listened to an earlier run.
//!
//! It is found out beside what happens now, pod by pod: an engine that hangs over one container keeps nobody
//! from hearing of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::v1::ContainerEventType as Type;
use tokio::time::{sleep, timeout};

use crate::docker::DockerError;
use crate::docker::types::{Actor, Container, ContainerSummary};
use crate::error::chain;
use crate::events::{self, Happened};
use crate::reconcile::{Stage, attributes};
use crate::shim::Shim;
use crate::{clock, labels};

/// Pods that the engine is asked about at a time.
const SIDE_BY_SIDE: usize = 8;
/// An engine that takes longer to tell of one thing hangs over it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses between tries to reach an engine that is away, from and to.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often an engine may break off over one thing.
const BREAKS: u32 = 5;

/// Tells all that there is to tell of what was there at the first look.
pub(crate) async fn tell(shim: &Shim, listed: &[ContainerSummary]) {
    let mut pods: BTreeMap<&str, Vec<ContainerSummary>> = BTreeMap::new();
    for one in listed {
        let own = labels::own(&one.labels, labels::SANDBOX_ID);
        let members = pods.entry(own.unwrap_or(&one.id)).or_default();
        members.push(one.clone());
    }
    let pods: Vec<_> = pods.into_values().collect();
    stream::iter(pods)
        .for_each_concurrent(SIDE_BY_SIDE, |members| {
            let shim = shim.clone();
            async move { tell_of_pod(&shim, &members).await }
        })
        .await;
}

async fn tell_of_pod(shim: &Shim, members: &[ContainerSummary]) {
    let is_sandbox =
        |one: &&ContainerSummary| labels::own(&one.labels, labels::SANDBOX_ID).is_none();
    let sandbox = members.iter().find(is_sandbox).map(attributes);
    let mut earlier = Vec::new();
    for one in members {
        if let Some(found) = inspected(shim, &one.id, PATIENCE).await {
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
    events::tell_earlier(shim, &happened).await;
}

/// A container, as the engine tells of it within some time; `None` if it does not.
pub(crate) async fn inspected(shim: &Shim, id: &str, patience: Duration) -> Option<Container> {
    let asked = persist(patience, || shim.docker.container(id), |error| Some(error)).await;
    // One that is removed meanwhile is told of as such.
    asked
        .inspect_err(|problem| {
            tracing::debug!(container = id, problem, "cannot inspect the container");
        })
        .ok()
}

/// Asks until the engine is there, and then waits for its answer for some time.
pub(crate) async fn persist<T, E, F>(
    patience: Duration,
    ask: impl Fn() -> F,
    of_engine: impl Fn(&E) -> Option<&DockerError>,
) -> Result<T, String>
where
    F: Future<Output = Result<T, E>>,
    E: std::error::Error + 'static,
{
    let mut pause = FIRST_PAUSE;
    let mut breaks = 0;
    loop {
        let Ok(answer) = timeout(patience, ask()).await else {
            return Err(format!("the engine did not answer within {patience:?}"));
        };
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match of_engine(&error) {
            Some(DockerError::Unreachable { .. }) => {}
            Some(DockerError::Broken { .. }) if breaks < BREAKS => breaks += 1,
            _ => return Err(chain(&error)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
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
