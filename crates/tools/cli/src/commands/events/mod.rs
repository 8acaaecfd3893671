//! `events`: streams container events, and shows past ones.

mod past;
mod unreadable;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;

use orlop_cri_api::images::ReadFailure;
use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType, ContainerStatus};

use self::past::Past;
use self::unreadable::Failures;
use crate::connect::Session;
use crate::input::moment;
use crate::output::{self, Format, FormatFlags, Style, rfc3339, short_id, stdout};

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatFlags,

    /// Filter events: type=created|started|stopped|deleted|unreadable, pod=NAME or ID,
    /// namespace=NAME, container=NAME or ID, label=KEY=VALUE (of the pod). If a filter is repeated,
    /// one of its values must match; different filters and labels must all match
    #[arg(short, long, value_name = "CONDITION")]
    filter: Vec<Condition>,

    /// Also show past events since TIME (10m, 2026-01-02T13:23:37Z); other runtimes do not keep
    /// past events
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Exit after N events
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let filter = Filter::new(args.filter);
    let since = args.since.as_deref().map(moment).transpose()?;
    let mut events = session.runtime().await?.container_events().await?;
    let style = Style::of(&io::stdout());
    let mut failures = Failures::watch(session).await?;
    // After the subscription, so that no event is missed in between.
    let (past, past_events) = match since {
        Some(since) => Past::since(session, since).await?,
        None => Default::default(),
    };
    let mut past_events = past_events.into_iter();
    let mut left = args.count;
    while left != Some(0) {
        let event = if let Some(event) = past_events.next() {
            Event::Container(Box::new(event))
        } else {
            tokio::select! {
                event = events.next() => match event? {
                    Some(event) if past.has(&event) => continue,
                    Some(event) => Event::Container(Box::new(event)),
                    None => break,
                },
                failure = failures.next() => Event::Unreadable(failure),
            }
        };
        if !filter.lets_through(&event) {
            continue;
        }
        let mut out = stdout();
        event.print(&mut out, &format, style)?;
        out.flush()?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// An event of the node.
enum Event {
    /// Event of a container or pod.
    Container(Box<ContainerEventResponse>),
    /// Data of a lazily pulled image was read and could not be fetched.
    Unreadable(ReadFailure),
}

impl Event {
    fn print(&self, out: &mut impl Write, format: &Format, style: Style) -> anyhow::Result<()> {
        match (self, format) {
            (Self::Container(event), Format::Table) => writeln!(out, "{}", line(event, style))?,
            (Self::Container(event), _) => drop(output::list(out, &**event, format)?),
            (Self::Unreadable(failure), Format::Table) => {
                writeln!(out, "{}", unreadable::line(failure, style))?;
            }
            (Self::Unreadable(failure), _) => {
                output::value(out, &unreadable::value(failure), format)?;
            }
        }
        Ok(())
    }
}

/// A condition of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Type(ContainerEventType),
    Unreadable,
    Pod(String),
    Namespace(String),
    Container(String),
    Label(String, String),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "write type=created|started|stopped|deleted|unreadable, pod=NAME, namespace=NAME, \
             container=NAME or label=KEY=VALUE"
                .to_owned()
        };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        if value.is_empty() {
            return Err(wrong());
        }
        let value_text = value.to_owned();
        match key {
            "type" if value.eq_ignore_ascii_case("unreadable") => Ok(Self::Unreadable),
            "type" => Ok(Self::Type(match value.to_ascii_lowercase().as_str() {
                "created" | "container_created_event" => ContainerEventType::ContainerCreatedEvent,
                "started" | "container_started_event" => ContainerEventType::ContainerStartedEvent,
                "stopped" | "container_stopped_event" => ContainerEventType::ContainerStoppedEvent,
                "deleted" | "container_deleted_event" => ContainerEventType::ContainerDeletedEvent,
                _ => return Err(wrong()),
            })),
            "pod" => Ok(Self::Pod(value_text)),
            "namespace" => Ok(Self::Namespace(value_text)),
            "container" => Ok(Self::Container(value_text)),
            "label" => {
                let (key, value) = value.split_once('=').ok_or_else(wrong)?;
                Ok(Self::Label(key.to_owned(), value.to_owned()))
            }
            _ => Err(wrong()),
        }
    }
}

/// Conditions by kind. An event passes if at least one condition of each kind matches. Each label key counts as a kind
/// of its own.
struct Filter(BTreeMap<String, Vec<Condition>>);

impl Filter {
    fn new(conditions: Vec<Condition>) -> Self {
        let mut kinds: BTreeMap<String, Vec<Condition>> = BTreeMap::new();
        for condition in conditions {
            let kind = match &condition {
                Condition::Type(_) | Condition::Unreadable => "type".to_owned(),
                Condition::Pod(_) => "pod".to_owned(),
                Condition::Namespace(_) => "namespace".to_owned(),
                Condition::Container(_) => "container".to_owned(),
                Condition::Label(key, _) => format!("label {key}"),
            };
            kinds.entry(kind).or_default().push(condition);
        }
        Self(kinds)
    }

    fn lets_through(&self, event: &Event) -> bool {
        let holds = |condition: &Condition| match event {
            Event::Container(event) => condition.holds(event),
            Event::Unreadable(_) => *condition == Condition::Unreadable,
        };
        self.0.values().all(|kind| kind.iter().any(holds))
    }
}

impl Condition {
    fn holds(&self, event: &ContainerEventResponse) -> bool {
        let pod = event.pod_sandbox_status.as_ref();
        let metadata = pod.and_then(|pod| pod.metadata.as_ref());
        match self {
            Self::Type(kind) => event.container_event_type() == *kind,
            Self::Unreadable => false,
            Self::Pod(word) => {
                metadata.is_some_and(|metadata| metadata.name == *word)
                    || pod.is_some_and(|pod| pod.id.starts_with(word))
            }
            Self::Namespace(word) => metadata.is_some_and(|metadata| metadata.namespace == *word),
            Self::Container(word) => {
                event.container_id.starts_with(word)
                    || container(event)
                        .and_then(name)
                        .is_some_and(|name| name == word)
            }
            Self::Label(key, value) => pod.is_some_and(|pod| pod.labels.get(key) == Some(value)),
        }
    }
}

/// Returns the container of the event; events of a pod itself have none.
fn container(event: &ContainerEventResponse) -> Option<&ContainerStatus> {
    event
        .containers_statuses
        .iter()
        .find(|status| status.id == event.container_id)
}

fn name(status: &ContainerStatus) -> Option<&str> {
    status
        .metadata
        .as_ref()
        .map(|metadata| metadata.name.as_str())
}

/// Formats `TIME TYPE NAMESPACE/POD CONTAINER ID`, with the exit code of an exited container.
fn line(event: &ContainerEventResponse, style: Style) -> String {
    let (word, colour) = match event.container_event_type() {
        ContainerEventType::ContainerCreatedEvent => ("created", 36),
        ContainerEventType::ContainerStartedEvent => ("started", 32),
        ContainerEventType::ContainerStoppedEvent => ("stopped", 33),
        ContainerEventType::ContainerDeletedEvent => ("deleted", 31),
    };
    let metadata = event
        .pod_sandbox_status
        .as_ref()
        .and_then(|pod| pod.metadata.clone())
        .unwrap_or_default();
    let status = container(event);
    let is_pod = event
        .pod_sandbox_status
        .as_ref()
        .is_some_and(|pod| pod.id == event.container_id);
    let what = match status.and_then(name) {
        Some(name) => name,
        None if is_pod => "(pod)",
        None => "-",
    };
    let mut line = format!(
        "{}  {}  {}/{}  {what}  {}",
        rfc3339(event.created_at),
        style.colour(colour, word),
        metadata.namespace,
        metadata.name,
        short_id(&event.container_id)
    );
    if let Some(status) = status
        && event.container_event_type() == ContainerEventType::ContainerStoppedEvent
    {
        let _ = write!(line, "  exit code {}", status.exit_code);
        if !status.reason.is_empty() {
            let _ = write!(line, " ({})", status.reason);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::{ContainerMetadata, PodSandboxMetadata, PodSandboxStatus};

    use super::*;

    fn event() -> ContainerEventResponse {
        ContainerEventResponse {
            container_id: "c1".into(),
            container_event_type: ContainerEventType::ContainerStoppedEvent.into(),
            pod_sandbox_status: Some(PodSandboxStatus {
                id: "p1".into(),
                metadata: Some(PodSandboxMetadata {
                    name: "web-0".into(),
                    namespace: "shop".into(),
                    ..Default::default()
                }),
                labels: [("app".to_owned(), "web".to_owned())].into(),
                ..Default::default()
            }),
            containers_statuses: vec![ContainerStatus {
                id: "c1".into(),
                metadata: Some(ContainerMetadata {
                    name: "main".into(),
                    attempt: 0,
                }),
                exit_code: 137,
                reason: "OOMKilled".into(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn conditions_of_one_kind_are_alternatives_and_kinds_add_up() {
        let lets = |conditions: &[&str]| {
            let parsed = conditions.iter().map(|text| text.parse().unwrap());
            Filter::new(parsed.collect()).lets_through(&Event::Container(Box::new(event())))
        };
        assert!(lets(&[]));
        assert!(lets(&["type=started", "type=stopped"]));
        assert!(!lets(&["type=started"]));
        assert!(lets(&["pod=web-0", "namespace=shop", "container=main"]));
        assert!(!lets(&["pod=web-0", "namespace=else"]));
        assert!(lets(&["label=app=web"]) && !lets(&["label=app=web", "label=tier=db"]));
        assert!(lets(&["pod=p1", "container=c1"]), "ids will do");
        for wrong in ["type=x", "pod", "pod=", "colour=red", "label=a"] {
            assert!(wrong.parse::<Condition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn failed_reads_are_a_type_of_their_own() {
        let lets = |conditions: &[&str], event: &Event| {
            let parsed = conditions.iter().map(|text| text.parse().unwrap());
            Filter::new(parsed.collect()).lets_through(event)
        };
        let failure = Event::Unreadable(ReadFailure::default());
        assert!(lets(&[], &failure));
        assert!(lets(&["type=started", "type=unreadable"], &failure));
        assert!(!lets(&["type=started"], &failure));
        assert!(!lets(&["pod=web-0"], &failure));
        let other = Event::Container(Box::new(event()));
        assert!(!lets(&["type=unreadable"], &other));
    }

    #[test]
    fn a_line_tells_who_and_how() {
        let line = line(&event(), Style::PLAIN);
        assert!(
            line.ends_with("stopped  shop/web-0  main  c1  exit code 137 (OOMKilled)"),
            "{line}"
        );
    }
}
