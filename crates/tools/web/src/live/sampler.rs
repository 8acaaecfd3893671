//! Sampler of the endpoint, which runs while a page is open.
//!
//! ```text
//!   responds? ──yes──► hello, node, pods, history ──► samples, news ──fails──┐
//!      ▲ no: gone                                                           │
//!      └──────────────── a second later ◄───────────────────── gone ◄───────┘
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::{StatusResponse, VersionResponse};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::hello::{Can, hello, node};
use super::hub::Hub;
use super::news::News;
use super::pods::{Pods, Seen};
use super::usage::Usage;
use super::{changes, findings, pulls};
use crate::asked::AskError;
use crate::events::write_event;

/// Pause before the next attempt if the endpoint does not respond.
const PAUSE: Duration = Duration::from_secs(1);

/// Minimum interval between lists of pods.
const SETTLE: Duration = Duration::from_secs(1);

/// Maximum interval between lists, as an event may be lost.
const AT_LEAST: Duration = Duration::from_secs(10);

/// Limit of queued updates.
const WAITING: usize = 256;

/// Samples until it is aborted.
pub(super) async fn run(hub: Arc<Hub>) {
    let mut said = String::new();
    loop {
        let (is_new, why) = match Session::begin(&hub).await {
            Ok(session) => match session.run().await {
                Err(error) => (true, error.to_string()),
            },
            Err(error) => (false, error.to_string()),
        };
        if is_new || said != why {
            hub.is_gone(&json!({ "why": why }).to_string());
            said = why;
        }
        sleep(PAUSE).await;
    }
}

/// An endpoint that responds.
struct Session<'a> {
    hub: &'a Hub,
    client: RuntimeClient,
    version: VersionResponse,
    status: StatusResponse,
    /// Time of the last list.
    asked: Instant,
    findings: Option<Value>,
    can: Can,
    pods: Pods,
    usage: Usage,
    seen: Seen,
    /// The list of pods that was sent last.
    told: String,
    news: Receiver<News>,
    /// Sender for updates, kept so that the channel stays open.
    sender: Sender<News>,
    /// Watchers, aborted with the session.
    watching: JoinSet<()>,
}

impl<'a> Session<'a> {
    async fn begin(hub: &'a Hub) -> Result<Self, AskError> {
        let cri = &hub.cri;
        let client = cri.runtime();
        let version = client.version().await?;
        let status = client.status(false).await?;
        let can = Can::find(cri).await?;
        let (sender, news) = mpsc::channel(WAITING);
        let mut watching = JoinSet::new();
        // Before the list, so that changes in between are sent again.
        watching.spawn(changes::watch(cri.clone(), sender.clone()));
        let mut pods = Pods::new(client.clone());
        let (told, seen) = pods.look().await?;
        Ok(Self {
            usage: Usage::new(client.clone(), cri.images()),
            hub,
            client,
            version,
            status,
            asked: Instant::now(),
            findings: None,
            can,
            pods,
            seen,
            told,
            news,
            sender,
            watching,
        })
    }

    async fn run(mut self) -> Result<Infallible, AskError> {
        let first = hello(self.hub, &self.version, self.can);
        self.hub.is_there([&first, &self.node(), &self.told]);
        if self.can.is_ours {
            let cri = &self.hub.cri;
            self.watching
                .spawn(pulls::watch(cri.clone(), self.sender.clone()));
            self.watching
                .spawn(findings::watch(cri.clone(), self.sender.clone()));
        }
        let mut looks = interval(self.hub.interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut listed = Instant::now();
        let mut next = listed + self.pace();
        loop {
            tokio::select! {
                _ = looks.tick() => self.look().await?,
                () = sleep_until(next) => {
                    self.list().await?;
                    listed = Instant::now();
                    next = listed + self.pace();
                }
                Some(news) = self.news.recv() => {
                    let may_have_changed = self.take_all(news)?;
                    let soon = if may_have_changed { SETTLE } else { self.pace() };
                    next = next.min(listed + soon);
                }
            }
        }
    }

    /// Returns the interval to the next list if nothing happens.
    fn pace(&self) -> Duration {
        if self.can.events {
            AT_LEAST
        } else {
            self.hub.interval
        }
    }

    async fn look(&mut self) -> Result<(), AskError> {
        let point = self.usage.look(&self.seen).await?;
        self.hub.tell_usage(point);
        if self.can.usage && !self.usage.is_told() {
            self.can.usage = false;
            self.say_hello();
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<(), AskError> {
        let (told, seen) = self.pods.look().await?;
        self.seen = seen;
        if told != self.told {
            self.hub.tell("pods", &told);
            self.told = told;
        }
        if self.asked.elapsed() >= AT_LEAST {
            self.asked = Instant::now();
            let status = self.client.status(false).await?;
            if status.status != self.status.status {
                self.status = status;
                self.hub.tell("node", &self.node());
            }
        }
        Ok(())
    }

    /// Handles the queued updates. Consecutive events are sent in one message, so that a burst costs one message.
    /// Returns whether the list may have changed.
    fn take_all(&mut self, first: News) -> Result<bool, AskError> {
        let mut events = String::new();
        let mut may_have_changed = false;
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(news) = next {
            if let News::Event(event) = news {
                let told = changes::event_json(&event, &self.seen);
                write_event(&mut events, "event", &told);
                may_have_changed = true;
            } else {
                self.hub.tell_events(std::mem::take(&mut events));
                self.take(news)?;
            }
            taken += 1;
            let is_room = taken < WAITING;
            next = is_room.then(|| self.news.try_recv().ok()).flatten();
        }
        self.hub.tell_events(events);
        Ok(may_have_changed)
    }

    fn take(&mut self, news: News) -> Result<(), AskError> {
        match news {
            // They are sent together.
            News::Event(_) => {}
            News::Pulls(told) => self.hub.tell("pulls", &told),
            News::Findings(findings) => {
                self.findings = Some(findings);
                self.hub.tell("node", &self.node());
            }
            News::NoEvents => {
                self.can.events = false;
                self.say_hello();
            }
            News::EventsEnded(why) => return Err(AskError::Gone(why)),
        }
        Ok(())
    }

    fn node(&self) -> String {
        node(&self.status, self.findings.as_ref())
    }

    fn say_hello(&self) {
        let told = hello(self.hub, &self.version, self.can);
        self.hub.tell("hello", &told);
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::ContainerEventResponse;

    use super::*;
    use crate::asked;

    #[tokio::test]
    async fn a_burst_of_events_is_one_message_to_a_page() {
        let cri = asked::connect("unix:///nowhere/at.sock".parse().unwrap());
        let hub = Hub::new(
            cri.clone(),
            (Duration::from_secs(1), Duration::ZERO),
            false,
            false,
        );
        let (sender, news) = mpsc::channel(WAITING);
        let client = cri.runtime();
        let mut session = Session {
            usage: Usage::new(client.clone(), cri.images()),
            hub: &hub,
            pods: Pods::new(client.clone()),
            client,
            version: VersionResponse::default(),
            status: StatusResponse::default(),
            asked: Instant::now(),
            findings: None,
            can: Can::default(),
            seen: Seen::default(),
            told: String::new(),
            news,
            sender,
            watching: JoinSet::new(),
        };
        let (mut page, _open) = hub.listen().unwrap();
        for number in 0..256 {
            let event = ContainerEventResponse {
                container_id: number.to_string(),
                ..ContainerEventResponse::default()
            };
            let news = News::Event(Box::new(event));
            session.sender.try_send(news).unwrap();
        }
        let first = session.news.recv().await.unwrap();
        let pulls = News::Pulls("{}".to_owned());
        session.sender.try_send(pulls).unwrap();
        assert!(session.take_all(first).unwrap());
        let mut told = || String::from_utf8(page.try_recv().unwrap().to_vec()).unwrap();
        assert_eq!(told().matches("event: event\n").count(), 256);
        session.sender.try_send(News::NoEvents).unwrap();
        let waiting = session.news.recv().await.unwrap();
        assert!(
            matches!(waiting, News::Pulls(_)),
            "no more than waits is taken"
        );
        assert!(!session.take_all(waiting).unwrap());
        assert_eq!(told(), "event: pulls\ndata: {}\n\n");
        assert!(told().starts_with("event: hello\n"));
    }
}
