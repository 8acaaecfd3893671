//! Keeping up with the engine: its events, resumed where they broke off, and a look at all that
//! there is whenever events may have been lost.
//!
//! ```text
//! away ── the event stream opens ──► look at all containers ──► keeping up
//!   ▲                                                              │
//!   └──────────────────── the stream breaks ◄──────────────────────┘
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orlop_cri::v1::ContainerEventType as Type;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::docker::Which;
use crate::docker::types::{Actor, Container as DockerContainer, ContainerSummary, Event};
use crate::error::chain;
use crate::events::{Happened, Told};
use crate::log::{From, Source};
use crate::shim::Shim;
use crate::{clock, earlier, events, labels, network, runtime_cgroup};

/// Pauses between tries to reach an engine that is away, from and to.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// An event longer than this is none.
const LONGEST_EVENT: usize = 1 << 20;

/// What is heard of the engine, for the one who acts on it.
enum News {
    /// Something happened.
    Event(Event),
    /// All that there is, after events may have been lost.
    All(Vec<ContainerSummary>),
}

/// Containers whose logs are begun to be read on at a time, after a start.
const LOGS_SIDE_BY_SIDE: usize = 32;

/// News that may wait to be acted on. The engine keeps a thousand more.
const QUEUE: usize = 4096;

/// Keeps up with the engine until the service stops.
pub(crate) async fn run(shim: Shim) {
    let stop = shim.stop.clone();
    let (tell, news) = mpsc::channel(QUEUE);
    let both = async {
        tokio::join!(listen(&shim, tell), Box::pin(act(&shim, news)));
    };
    stop.run_until_cancelled(both).await;
}

/// Hears what happens, and holds nobody up: what takes its time is done by [`act`].
async fn listen(shim: &Shim, tell: mpsc::Sender<News>) {
    let mut last = 0;
    let mut pause = FIRST_PAUSE;
    loop {
        match once(shim, &tell, &mut last).await {
            Ok(()) => {
                tracing::warn!("the Docker Engine ended its event stream");
                pause = FIRST_PAUSE;
            }
            Err(problem) => tracing::debug!(problem, "no events from the Docker Engine"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One connection to the engine, for as long as it lasts. `last` is when the last event was, in
/// nanoseconds since the epoch.
async fn once(shim: &Shim, tell: &mpsc::Sender<News>, last: &mut i64) -> Result<(), String> {
    // Before the list: what happens between the two is told twice rather than never.
    let since = (*last > 0).then(|| clock::since(*last));
    let stream = shim.docker.events(labels::KIND, since.as_deref()).await;
    let mut stream = stream.map_err(|error| chain(&error))?;
    // There may be another engine behind the socket now.
    shim.info.forget();
    shim.pause.is_gone();
    shim.remembered.forget_all();
    let asking = shim.clone();
    // In advance: the first pod need not wait for it.
    shim.tasks.spawn(async move { asking.info().await.is_ok() });
    runtime_cgroup::enter(shim).await;
    let listed = shim.docker.list_containers(&ours()).await;
    let listed = listed.map_err(|error| chain(&error))?;
    tracing::info!(
        containers = listed.len(),
        "keeping up with the Docker Engine"
    );
    let _ = tell.send(News::All(listed)).await;
    shim.events.tell_engine_is_back();

    let mut rest = Vec::new();
    while let Some(Ok(piece)) = stream.next().await {
        rest.extend_from_slice(&piece);
        let mut events = serde_json::Deserializer::from_slice(&rest).into_iter::<Event>();
        let whole: Vec<Event> = events.by_ref().map_while(Result::ok).collect();
        let read = events.byte_offset();
        rest.drain(..read);
        if rest.len() > LONGEST_EVENT {
            return Err("an event without an end".to_owned());
        }
        for event in whole {
            // The engine tells once more of what was last.
            if event.time_nano <= *last {
                continue;
            }
            *last = event.time_nano;
            if event.action == "exec_die" {
                exec_ended(shim, &event);
            } else {
                let _ = tell.send(News::Event(event)).await;
            }
        }
    }
    Ok(())
}

fn ours() -> Which {
    Which {
        labels: vec![labels::KIND.to_owned()],
        ..Which::default()
    }
}

fn exec_ended(shim: &Shim, event: &Event) {
    let attributes = &event.actor.attributes;
    if let Some(exec) = attributes.get("execID") {
        let code = attributes
            .get("exitCode")
            .and_then(|code| code.parse().ok());
        shim.execs.ended(exec, code);
    }
}

async fn act(shim: &Shim, mut news: mpsc::Receiver<News>) {
    let mut known = Known::default();
    while let Some(one) = news.recv().await {
        match one {
            News::Event(event) => known.happened(shim, event).await,
            News::All(listed) => known.take_in(shim, &listed).await,
        }
    }
}

/// The containers, as the last that was heard of them.
#[derive(Default)]
struct Known {
    containers: HashMap<String, Container>,
    /// Whether the first look has been taken.
    begun: bool,
}

struct Container {
    stage: Stage,
    attributes: std::collections::BTreeMap<String, String>,
}

/// How far a container has come in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Created,
    Running,
    Ended,
}

impl Stage {
    pub(crate) fn of(listed: &ContainerSummary) -> Self {
        match listed.state.as_str() {
            "created" => Self::Created,
            "running" | "paused" | "restarting" => Self::Running,
            _ => Self::Ended,
        }
    }
}

impl Known {
    async fn happened(&mut self, shim: &Shim, event: Event) {
        let what = match event.action.as_str() {
            "create" => Type::ContainerCreatedEvent,
            "start" => Type::ContainerStartedEvent,
            "die" => Type::ContainerStoppedEvent,
            "destroy" => Type::ContainerDeletedEvent,
            _ => return,
        };
        if what != Type::ContainerCreatedEvent {
            // The word of a sandbox's start comes while it is being made, and says nothing new.
            if what != Type::ContainerStartedEvent || is_container(&event.actor) {
                shim.remembered.forget(&event.actor.id);
            }
        }
        self.note(shim, what, event.time_nano, event.actor).await;
    }

    async fn note(&mut self, shim: &Shim, what: Type, at: i64, whom: Actor) {
        let stage = match what {
            Type::ContainerCreatedEvent => Stage::Created,
            Type::ContainerStartedEvent => Stage::Running,
            Type::ContainerStoppedEvent => Stage::Ended,
            Type::ContainerDeletedEvent => {
                let known = self.containers.remove(&whom.id);
                shim.logs.forget(&whom.id);
                shim.stats.forget(&whom.id);
                let happened = self.happening(what, at, &whom);
                if events::tell(shim, &happened).await == Told::No {
                    self.remember(whom.id, known);
                }
                return;
            }
        };
        let container = Container {
            stage,
            attributes: whom.attributes.clone(),
        };
        let before = self.containers.insert(whom.id.clone(), container);
        match stage {
            Stage::Created => {}
            Stage::Running if !is_container(&whom) => {}
            // What is started here has its reader already; this one was started by hand.
            Stage::Running if shim.logs.is_followed(&whom.id) => {}
            Stage::Running => {
                if let Ok(found) = shim.docker.container(&whom.id).await {
                    read_log(shim, found).await;
                }
            }
            Stage::Ended => shim.logs.settle(&whom.id).await,
        }
        let happened = self.happening(what, at, &whom);
        if events::tell(shim, &happened).await == Told::No {
            self.remember(whom.id, before);
        }
    }

    fn happening<'a>(&'a self, what: Type, at: i64, whom: &'a Actor) -> Happened<'a> {
        let sandbox = whom.attributes.get(labels::SANDBOX_ID);
        let sandbox = sandbox.and_then(|id| self.containers.get(id));
        Happened {
            what,
            at,
            whom,
            sandbox: sandbox.map(|known| &known.attributes),
        }
    }

    /// What was known of a container is known again: what has happened since is found out, and
    /// told, when the engine is back.
    fn remember(&mut self, id: String, before: Option<Container>) {
        match before {
            Some(before) => self.containers.insert(id, before),
            None => self.containers.remove(&id),
        };
    }

    /// Compares what there is with what was known, and makes up for what was not heard of.
    async fn take_in(&mut self, shim: &Shim, listed: &[ContainerSummary]) {
        let begun = std::mem::replace(&mut self.begun, true);
        let now = clock::now();
        let gone: Vec<String> = self
            .containers
            .keys()
            .filter(|id| !listed.iter().any(|one| one.id == **id))
            .cloned()
            .collect();
        for id in gone {
            if let Some(container) = self.containers.get(&id) {
                let attributes = container.attributes.clone();
                let whom = Actor { id, attributes };
                self.note(shim, Type::ContainerDeletedEvent, now, whom)
                    .await;
            }
        }
        for one in listed {
            let stage = Stage::of(one);
            let whom = Actor {
                id: one.id.clone(),
                attributes: attributes(one),
            };
            let before = self.containers.get(&one.id).map(|known| known.stage);
            let missed = if begun {
                missed(before, stage)
            } else {
                Vec::new()
            };
            if missed.is_empty() {
                let attributes = whom.attributes.clone();
                let container = Container { stage, attributes };
                self.containers.insert(one.id.clone(), container);
            }
            for what in missed {
                self.note(shim, what, now, whom.clone()).await;
            }
        }
        if !begun {
            shim.tasks.spawn(begin(shim.clone(), listed.to_vec()));
        }
    }
}

fn is_container(whom: &Actor) -> bool {
    whom.attributes
        .get(labels::KIND)
        .is_some_and(|kind| kind == labels::CONTAINER)
}

/// What must have happened between two looks.
fn missed(before: Option<Stage>, now: Stage) -> Vec<Type> {
    let all = [
        (Stage::Created, Type::ContainerCreatedEvent),
        (Stage::Running, Type::ContainerStartedEvent),
        (Stage::Ended, Type::ContainerStoppedEvent),
    ];
    all.into_iter()
        .filter(|(stage, _)| before.is_none_or(|before| *stage > before) && *stage <= now)
        .map(|(_, what)| what)
        .collect()
}

/// A container's attributes, as the engine's events have them.
pub(crate) fn attributes(listed: &ContainerSummary) -> std::collections::BTreeMap<String, String> {
    let mut attributes = listed.labels.clone();
    if let Some(name) = listed.names.first() {
        let name = name.trim_start_matches('/').to_owned();
        attributes.insert("name".into(), name);
    }
    attributes
}

/// After the first look, beside all that happens now: none of this waits for the rest of it, as the engine may
/// hang over any container.
async fn begin(shim: Shim, listed: Vec<ContainerSummary>) {
    let all = async {
        tokio::join!(
            Box::pin(read_on(&shim, &listed)),
            Box::pin(release_networks(&shim, &listed)),
            Box::pin(earlier::tell(&shim, &listed)),
        )
    };
    shim.stop.run_until_cancelled(all).await;
}

/// Reads the logs of what runs on, and completes those of what has ended.
async fn read_on(shim: &Shim, listed: &[ContainerSummary]) {
    let containers = listed.iter().filter(|one| {
        one.labels
            .get(labels::KIND)
            .is_some_and(|kind| kind == labels::CONTAINER)
    });
    let (running, others): (Vec<_>, Vec<_>) =
        containers.partition(|one| Stage::of(one) == Stage::Running);
    let running: Vec<_> = running.iter().map(|one| one.id.clone()).collect();
    stream::iter(running)
        .for_each_concurrent(LOGS_SIDE_BY_SIDE, |id| {
            let shim = shim.clone();
            async move { read_on_log(&shim, &id).await }
        })
        .await;
    for one in others
        .into_iter()
        .filter(|one| Stage::of(one) == Stage::Ended)
    {
        // One after the other: there may be hundreds, and nobody waits for them.
        let path = one.labels.get(labels::LOG_PATH).map_or("", String::as_str);
        if Path::new(path).is_file() && !Path::new(path).is_symlink() {
            read_on_log(shim, &one.id).await;
            shim.logs.settle(&one.id).await;
        }
    }
}

/// The same for one, as soon as the engine tells of it.
async fn read_on_log(shim: &Shim, id: &str) {
    if shim.logs.is_followed(id) {
        return;
    }
    if let Some(found) = earlier::inspected(shim, id, shim.docker.limit()).await
        && !shim.logs.is_followed(id)
    {
        read_log(shim, found).await;
    }
}

/// Reads a container's log.
async fn read_log(shim: &Shim, found: DockerContainer) {
    let labels = &found.config.labels;
    let is_container = labels
        .get(labels::KIND)
        .is_some_and(|kind| kind == labels::CONTAINER);
    let path = labels.get(labels::LOG_PATH).map_or("", String::as_str);
    // A link leads to the engine's own log: cri-dockerd made it, and the kubelet reads it.
    if !is_container || path.is_empty() || Path::new(path).is_symlink() {
        return;
    }
    let source = Source {
        id: found.id.clone(),
        path: path.into(),
        terminal: found.config.tty,
    };
    if let Err(error) = shim.logs.follow(shim, source, From::File).await {
        tracing::warn!(container = found.id, error = %chain(&*error), "this log is not written on");
    }
}

/// Undoes the networks of sandboxes that neither the engine nor a checkpoint knows.
async fn release_networks(shim: &Shim, listed: &[ContainerSummary]) {
    let Some(networks) = &shim.networks else {
        return;
    };
    let Ok(checkpoints) = shim.checkpoints.ids().await else {
        return;
    };
    let valid: std::collections::HashSet<String> = listed
        .iter()
        .map(|one| one.id.clone())
        .chain(checkpoints)
        .collect();
    let attached = networks.list().await.unwrap_or_default();
    // What was begun after the list was made is not in it.
    for entry in attached {
        let id = entry.attachment.id.as_str();
        if valid.contains(id) {
            continue;
        }
        let asked = shim.docker.container(id).await;
        // Of what the engine tells nothing of, nobody knows that it is gone.
        if !asked.is_err_and(|error| error.is_not_found()) {
            continue;
        }
        match networks.detach(&entry.attachment, None).await {
            Ok(()) => {
                network::forget(shim, id);
                tracing::info!(
                    sandbox = id,
                    "released the network of a sandbox that is gone"
                );
            }
            Err(error) => tracing::warn!(sandbox = id, %error, "cannot release a network"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_made_up_for_in_order() {
        use Type::{ContainerCreatedEvent, ContainerStartedEvent, ContainerStoppedEvent};
        assert_eq!(missed(Some(Stage::Running), Stage::Running), []);
        assert_eq!(
            missed(Some(Stage::Running), Stage::Ended),
            [ContainerStoppedEvent]
        );
        assert_eq!(
            missed(None, Stage::Ended),
            [
                ContainerCreatedEvent,
                ContainerStartedEvent,
                ContainerStoppedEvent
            ]
        );
        assert_eq!(missed(None, Stage::Created), [ContainerCreatedEvent]);
    }
}
