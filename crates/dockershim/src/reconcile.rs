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

/// Pauses between tries to reach an engine that is away, from and to.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Pause between two looks at all that there is.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// When it is looked again whether the engine tells of what it was silent about.
const AFTER_SILENCE: Duration = Duration::from_secs(5);

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
    let untold = Notify::new();
    let both = async {
        tokio::join!(
            listen(&shim, tell, &untold),
            Box::pin(act(&shim, news, &untold))
        );
    };
    stop.run_until_cancelled(both).await;
}

/// Hears what happens, and holds nobody up: what takes its time is done by [`act`].
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

/// One connection to the engine, for as long as it lasts. `last` is when the last event was, in
/// nanoseconds since the epoch. `untold` says that something could not be told.
async fn once(
    shim: &Shim,
    tell: &mpsc::Sender<News>,
    untold: &Notify,
    last: &mut i64,
) -> Result<(), String> {
    // Before the list: what happens between the two is told twice rather than never.
    let since = (*last > 0).then(|| clock::since(*last));
    let stream = shim.docker.events(labels::KIND, since.as_deref()).await;
    let mut stream = stream.map_err(|error| chain(&error))?;
    // There may be another engine behind the socket now.
    shim.info.forget();
    shim.pause.is_gone();
    shim.remembered.forget_all();
    let asking = shim.info.clone();
    // In advance: the first pod need not wait for it.
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
            // The engine hangs over one container, and goes on with all others.
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
}

/// Has all that there is looked at, and returns how many containers that are.
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

/// The containers, as the last that was heard of them.
struct Known {
    containers: HashMap<String, Container>,
    /// How often all that there is was looked at.
    looks: u64,
    /// What happened and is not told yet, by the pod: the engine may hang over any of them.
    words: Lanes<Word, (Word, Told)>,
}

/// Something that happened to a container, and is to be told.
struct Word {
    what: Type,
    at: i64,
    whom: Actor,
    /// The attributes of its sandbox, if that is known.
    sandbox: Option<Attributes>,
    /// What was known of it before.
    before: Option<Container>,
    /// As many looks had been taken.
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
            // The word of a sandbox's start comes while it is being made, and says nothing new.
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

    /// Whether nothing is left to be found out by a look.
    fn carried_out(&mut self, pod: String, (mut word, told): (Word, Told)) -> bool {
        if told == Told::Yes {
            self.words.go_on(pod, None);
        } else if word.looks != self.looks {
            // The engine is back since, and who looked took this for told.
            word.looks = self.looks;
            self.words.go_on(pod, Some(word));
        } else {
            // What was known of it is known again: what has happened since is found out, and told, by the next look.
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

    /// Returns what was known before.
    fn remember(&mut self, id: &str, now: Option<Container>) -> Option<Container> {
        match now {
            Some(now) => self.containers.insert(id.to_owned(), now),
            None => self.containers.remove(id),
        }
    }

    /// Compares what there is with what was known, and makes up for what was not heard of.
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

/// Does what something that happened asks for, and tells of it.
async fn carry_out(shim: &Shim, word: &Word) -> Told {
    let id = &word.whom.id;
    match word.what {
        // What is started here has its reader already; this one was started by hand.
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

/// Whether a container is one of a pod that is there. What it says of its log is believed then, and of no other:
/// the labels of a container that somebody runs may be its image's.
fn is_in(container: &Attributes, sandbox: Option<&Attributes>) -> bool {
    let has = |attributes: &Attributes, kind| {
        let name = attributes.get("name");
        is_kind(attributes, kind) && name.is_some_and(|name| names::is_ours(name))
    };
    has(container, labels::CONTAINER)
        && sandbox.is_some_and(|sandbox| has(sandbox, labels::SANDBOX))
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

/// After the first look, beside all that happens now: none of this waits for the rest of it, as the engine may
/// hang over any container.
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

/// Reads the logs of what runs on, and completes those of what has ended.
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
    if let Some(found) = earlier::inspected(&shim.docker, id, shim.docker.limit()).await
        && !shim.logs.is_followed(id)
    {
        read_log(shim, found).await;
    }
}

/// Reads a container's log.
async fn read_log(shim: &Shim, found: DockerContainer) {
    let labels = &found.config.labels;
    let is_container = is_kind(labels, labels::CONTAINER) && names::is_ours(&found.name);
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
    if let Err(error) = shim.logs.follow(source, From::File).await {
        tracing::warn!(container = found.id, error = %chain(&*error), "cannot continue the container log");
    }
}

/// Undoes the networks of sandboxes that neither the engine nor a checkpoint knows.
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
