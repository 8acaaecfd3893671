//! Follows the state of the engine: reads its events, resumes them after an interruption, and lists all containers if
//! events may have been lost.
//!
//! ```text
//! away ── the event stream opens ──► list all containers ──► following events
//!   ▲                                                             │
//!   └──────────────────── the stream breaks ◄─────────────────────┘
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::v1::ContainerEventType as Type;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::docker::Which;
use crate::docker::types::{Actor, Container as DockerContainer, ContainerSummary, Event};
use crate::error::chain;
use crate::event_lines::EventLines;
use crate::events::{Happened, Told};
use crate::lanes::Lanes;
use crate::listed::{Attributes, Stage, attributes};
use crate::log::{From, Source};
use crate::shim::Shim;
use crate::{clock, earlier, labels, names, runtime_cgroup};

/// First and longest pause between attempts to reach the engine.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Minimum time between two container lists.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// When to list all containers again after an event could not be delivered.
const AFTER_SILENCE: Duration = Duration::from_secs(5);

/// A message from the event reader to the task that acts on it.
enum News {
    /// An event.
    Event(Event),
    /// All containers, after events may have been lost.
    All(Vec<ContainerSummary>),
}

/// Number of container logs that are resumed in parallel after a start.
const LOGS_SIDE_BY_SIDE: usize = 32;

/// Maximum number of queued messages. The engine buffers a thousand more.
const QUEUE: usize = 4096;

/// Follows the state of the engine until the service stops.
pub(crate) async fn run(shim: Shim) {
    let stop = shim.stop.clone();
    let (tell, news) = mpsc::channel(QUEUE);
    let untold = Notify::new();
    let both = async {
        tokio::join!(
            listen(&shim, tell, &untold),
            Box::pin(act(&shim, news, &untold))
        );
    };
    stop.run_until_cancelled(both).await;
}

/// Reads the engine's events without delay; [`act`] does the slow work.
async fn listen(shim: &Shim, tell: mpsc::Sender<News>, untold: &Notify) {
    let mut last = 0;
    let mut pause = FIRST_PAUSE;
    loop {
        match once(shim, &tell, untold, &mut last).await {
            Ok(()) => {
                tracing::warn!("the Docker Engine closed its event stream");
                pause = FIRST_PAUSE;
            }
            Err(problem) => tracing::debug!(problem, "cannot read events from the Docker Engine"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads events over one connection until it ends. `last` is the time of the last event in nanoseconds since the
/// epoch. `untold` signals an event that could not be delivered.
async fn once(
    shim: &Shim,
    tell: &mpsc::Sender<News>,
    untold: &Notify,
    last: &mut i64,
) -> Result<(), String> {
    // Subscribe before the list: events between the two are then reported twice rather than never.
    let since = (*last > 0).then(|| clock::since(*last));
    let stream = shim.docker.events(labels::KIND, since.as_deref()).await;
    let mut stream = stream.map_err(|error| chain(&error))?;
    // Another engine may now listen on the socket.
    shim.info.forget();
    shim.pause.is_gone();
    shim.remembered.forget_all();
    let asking = shim.info.clone();
    // Refresh in advance, so that the first pod need not wait.
    shim.tasks.spawn(async move { asking.get().await.is_ok() });
    let wanted = shim.config.runtime_cgroup.as_deref();
    runtime_cgroup::enter(wanted, shim.hierarchies.as_ref(), shim.docker.endpoint()).await;
    let containers = look(shim, tell).await?;
    tracing::info!(containers, "connected to the Docker Engine's event stream");
    shim.engine_return.tell();

    let mut lines = EventLines::default();
    let mut looked = Instant::now();
    let mut missed = false;
    let mut again = None;
    loop {
        let piece = tokio::select! {
            piece = stream.next() => piece,
            // The engine hangs on one container but serves the others.
            () = untold.notified(), if again.is_none() => {
                again = Some(Instant::now() + AFTER_SILENCE);
                continue;
            }
            () = sleep_until(again.unwrap_or(looked)), if again.is_some() => {
                again = None;
                missed = true;
                continue;
            }
            () = sleep_until(looked + BETWEEN_LOOKS), if missed => {
                missed = false;
                shim.remembered.forget_all();
                look(shim, tell).await?;
                looked = Instant::now();
                continue;
            }
        };
        let Some(Ok(piece)) = piece else {
            return Ok(());
        };
        let heard = lines.read(&piece);
        if heard.missed && !missed {
            tracing::warn!(
                "cannot parse an event of the Docker Engine; listing all containers again"
            );
            missed = true;
        }
        for event in heard.events {
            // The engine repeats recent events.
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
}

/// Lists all containers for the acting task, and returns their number.
async fn look(shim: &Shim, tell: &mpsc::Sender<News>) -> Result<usize, String> {
    let listed = shim.docker.list_containers(&ours()).await;
    let listed = listed.map_err(|error| chain(&error))?;
    let count = listed.len();
    let _ = tell.send(News::All(listed)).await;
    Ok(count)
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

async fn act(shim: &Shim, mut news: mpsc::Receiver<News>, untold: &Notify) {
    let mut known = Known::new(shim.clone());
    loop {
        tokio::select! {
            biased;
            Some((pod, done)) = known.words.next() => {
                if !known.carried_out(pod, done) {
                    untold.notify_one();
                }
            }
            one = news.recv(), if known.words.waiting() < QUEUE => match one {
                Some(News::Event(event)) => known.happened(shim, event),
                Some(News::All(listed)) => known.take_in(shim, &listed),
                None => return,
            },
            else => return,
        }
    }
}

/// The containers in their last known state.
struct Known {
    containers: HashMap<String, Container>,
    /// Number of container lists so far.
    looks: u64,
    /// Events that are not delivered yet, in one lane per pod: the engine may hang on any of them.
    words: Lanes<Word, (Word, Told)>,
}

/// A container event to deliver.
struct Word {
    what: Type,
    at: i64,
    whom: Actor,
    /// The attributes of its sandbox, if known.
    sandbox: Option<Attributes>,
    /// The container's state before the event.
    before: Option<Container>,
    /// The value of [`Known::looks`] at the event.
    looks: u64,
}

struct Container {
    stage: Stage,
    attributes: Attributes,
}

impl Known {
    fn new(shim: Shim) -> Self {
        Self {
            containers: HashMap::new(),
            looks: 0,
            words: Lanes::new(move |word: Word| {
                let shim = shim.clone();
                Box::pin(async move {
                    let told = carry_out(&shim, &word).await;
                    (word, told)
                })
            }),
        }
    }

    fn happened(&mut self, shim: &Shim, event: Event) {
        let what = match event.action.as_str() {
            "create" => Type::ContainerCreatedEvent,
            "start" => Type::ContainerStartedEvent,
            "die" => Type::ContainerStoppedEvent,
            "destroy" => Type::ContainerDeletedEvent,
            _ => return,
        };
        if what != Type::ContainerCreatedEvent {
            // The start event of a sandbox comes while it is being created, and contains nothing new.
            if what != Type::ContainerStartedEvent || is_container(&event.actor) {
                shim.remembered.forget(&event.actor.id);
            }
        }
        self.note(what, event.time_nano, event.actor);
    }

    fn note(&mut self, what: Type, at: i64, whom: Actor) {
        let stage = match what {
            Type::ContainerCreatedEvent => Some(Stage::Created),
            Type::ContainerStartedEvent => Some(Stage::Running),
            Type::ContainerStoppedEvent => Some(Stage::Ended),
            Type::ContainerDeletedEvent => None,
        };
        let attributes = whom.attributes.clone();
        let now = stage.map(|stage| Container { stage, attributes });
        let before = self.remember(&whom.id, now);
        let sandbox = labels::own(&whom.attributes, labels::SANDBOX_ID);
        let pod = sandbox.unwrap_or(&whom.id).clone();
        let sandbox = sandbox.and_then(|id| self.containers.get(id));
        let word = Word {
            what,
            at,
            sandbox: sandbox.map(|known| known.attributes.clone()),
            whom,
            before,
            looks: self.looks,
        };
        self.words.push(&pod, word);
    }

    /// Handles the outcome of a delivery; `false` means that another container list is needed.
    fn carried_out(&mut self, pod: String, (mut word, told): (Word, Told)) -> bool {
        if told == Told::Yes {
            self.words.go_on(pod, None);
        } else if word.looks != self.looks {
            // The engine came back meanwhile, and that list counted this event as delivered: deliver it again.
            word.looks = self.looks;
            self.words.go_on(pod, Some(word));
        } else {
            // Restores the state before the event, so that the next list detects and delivers the change.
            let id = word.whom.id;
            let next = self.words.find(&pod, |next| next.whom.id == id);
            if let Some(next) = next {
                next.before = word.before;
            } else {
                self.remember(&id, word.before);
            }
            self.words.go_on(pod, None);
            return false;
        }
        true
    }

    /// Sets a container's state and returns the previous one.
    fn remember(&mut self, id: &str, now: Option<Container>) -> Option<Container> {
        match now {
            Some(now) => self.containers.insert(id.to_owned(), now),
            None => self.containers.remove(id),
        }
    }

    /// Compares the list with the known state and generates the missed events.
    fn take_in(&mut self, shim: &Shim, listed: &[ContainerSummary]) {
        let begun = self.looks > 0;
        self.looks += 1;
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
                self.note(Type::ContainerDeletedEvent, now, whom);
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
                self.note(what, now, whom.clone());
            }
        }
        if !begun {
            shim.tasks.spawn(begin(shim.clone(), listed.to_vec()));
        }
    }
}

/// Acts on an event and delivers it to the subscribers.
async fn carry_out(shim: &Shim, word: &Word) -> Told {
    let id = &word.whom.id;
    match word.what {
        // If this daemon started the container, a log follower exists; this is for containers started by hand.
        Type::ContainerStartedEvent
            if is_in(&word.whom.attributes, word.sandbox.as_ref())
                && !shim.logs.is_followed(id) =>
        {
            if let Ok(found) = shim.docker.container(id).await {
                read_log(shim, found).await;
            }
        }
        Type::ContainerCreatedEvent | Type::ContainerStartedEvent => {}
        Type::ContainerStoppedEvent => shim.logs.settle(id).await,
        Type::ContainerDeletedEvent => {
            shim.logs.forget(id);
            shim.stats.forget(id);
        }
    }
    let happened = Happened {
        what: word.what,
        at: word.at,
        whom: &word.whom,
        sandbox: word.sandbox.as_ref(),
    };
    shim.events.tell(&happened).await
}

fn is_container(whom: &Actor) -> bool {
    is_kind(&whom.attributes, labels::CONTAINER)
}

fn is_kind(attributes: &Attributes, wanted: &str) -> bool {
    let kind = attributes.get(labels::KIND);
    kind.is_some_and(|kind| kind == wanted)
}

/// Whether a container belongs to an existing pod. Only then are its log labels trusted: other containers may have
/// them from their image.
fn is_in(container: &Attributes, sandbox: Option<&Attributes>) -> bool {
    let has = |attributes: &Attributes, kind| {
        let name = attributes.get("name");
        is_kind(attributes, kind) && name.is_some_and(|name| names::is_ours(name))
    };
    has(container, labels::CONTAINER)
        && sandbox.is_some_and(|sandbox| has(sandbox, labels::SANDBOX))
}

/// Returns the events that must have happened between two lists.
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

/// Runs after the first list, in parallel to new events: the engine may hang on any container.
async fn begin(shim: Shim, listed: Vec<ContainerSummary>) {
    let all = async {
        tokio::join!(
            Box::pin(read_on(&shim, &listed)),
            Box::pin(release_networks(&shim, &listed)),
            Box::pin(earlier::tell(&shim.docker, &shim.events, &listed)),
        )
    };
    shim.stop.run_until_cancelled(all).await;
}

/// Resumes the logs of running containers and completes those of containers that have ended.
async fn read_on(shim: &Shim, listed: &[ContainerSummary]) {
    let known: HashMap<&str, Attributes> = listed
        .iter()
        .map(|one| (one.id.as_str(), attributes(one)))
        .collect();
    let containers = listed.iter().filter(|one| {
        let sandbox = labels::own(&one.labels, labels::SANDBOX_ID);
        let sandbox = sandbox.and_then(|id| known.get(id.as_str()));
        is_in(&attributes(one), sandbox)
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
        // Sequentially: there may be hundreds, and no caller waits.
        let path = one.labels.get(labels::LOG_PATH).map_or("", String::as_str);
        if Path::new(path).is_file() && !Path::new(path).is_symlink() {
            read_on_log(shim, &one.id).await;
            shim.logs.settle(&one.id).await;
        }
    }
}

/// Resumes one container's log when the engine answers.
async fn read_on_log(shim: &Shim, id: &str) {
    if shim.logs.is_followed(id) {
        return;
    }
    if let Some(found) = earlier::inspected(&shim.docker, id, shim.docker.limit()).await
        && !shim.logs.is_followed(id)
    {
        read_log(shim, found).await;
    }
}

/// Starts the follower of a container's log.
async fn read_log(shim: &Shim, found: DockerContainer) {
    let labels = &found.config.labels;
    let is_container = is_kind(labels, labels::CONTAINER) && names::is_ours(&found.name);
    let path = labels.get(labels::LOG_PATH).map_or("", String::as_str);
    // A symlink to the engine's own log is from cri-dockerd, and the kubelet reads it directly.
    if !is_container || path.is_empty() || Path::new(path).is_symlink() {
        return;
    }
    let source = Source {
        id: found.id.clone(),
        path: path.into(),
        terminal: found.config.tty,
    };
    if let Err(error) = shim.logs.follow(source, From::File).await {
        tracing::warn!(container = found.id, error = %chain(&*error), "cannot continue the container log");
    }
}

/// Tears down networks of sandboxes that neither the engine nor a checkpoint knows.
async fn release_networks(shim: &Shim, listed: &[ContainerSummary]) {
    let Some(networks) = shim.network.cni() else {
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
    // A sandbox created after the list is not in it.
    for entry in attached {
        let id = entry.attachment.id.as_str();
        if valid.contains(id) {
            continue;
        }
        let asked = shim.docker.container(id).await;
        // If the engine does not answer, the sandbox may still exist.
        if !asked.is_err_and(|error| error.is_not_found()) {
            continue;
        }
        match networks.detach(&entry.attachment, None).await {
            Ok(()) => {
                shim.network.forget(id);
                tracing::info!(sandbox = id, "released the network of a removed sandbox");
            }
            Err(error) => {
                tracing::warn!(sandbox = id, %error, "cannot release the network of a removed sandbox");
            }
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
