//! `wait`: waits until containers or pods reach a state.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cri_api::client::{ClientError, RuntimeClient};
use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use tokio::sync::broadcast;
use tonic::Code;

use crate::connect::Session;
use crate::input::Span;
use crate::input::select::{self, Thing};
use crate::output::write_all;

/// Poll intervals: long if the runtime sends events, else short.
const WITH_EVENTS: Duration = Duration::from_secs(2);
const WITHOUT_EVENTS: Duration = Duration::from_millis(200);

/// Queue of events for a waiter; if it overflows, the waiter polls.
const EVENTS: usize = 256;

/// Arguments of `wait`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers and pods
    #[arg(value_name = "CONTAINER|POD", required = true)]
    things: Vec<String>,

    /// State to wait for: created, running or exited for containers, ready or notready for pods,
    /// gone for both [default: exited or notready]
    #[arg(long = "for", value_name = "STATE")]
    state: Option<State>,

    /// Maximum time to wait
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,

    /// Exit with the exit code of the container (for several: the first that is not 0)
    #[arg(long)]
    exit_code: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    Created,
    Running,
    Exited,
    Ready,
    #[value(name = "notready")]
    NotReady,
    Gone,
}

/// Result of a wait.
enum End {
    Exited(i32),
    Other(&'static str),
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let client = session.runtime().await?;
    let mut things = Vec::new();
    for word in &args.things {
        let thing = select::thing(&client, word).await?;
        check(args.state, &thing, word)?;
        things.push(thing);
    }
    // Subscribed before the first poll, so that no change is missed in between.
    let (sender, _) = broadcast::channel(EVENTS);
    let events = client.container_events().await.ok();
    let pause = match events {
        Some(_) => WITH_EVENTS,
        None => WITHOUT_EVENTS,
    };
    let waits = things
        .iter()
        .map(|thing| wait(&client, thing, args.state, sender.subscribe(), pause));
    let all = futures_util::future::try_join_all(waits);
    let reading = async {
        if let Some(mut events) = events {
            while let Ok(Some(event)) = events.next().await {
                let _ = sender.send(event.container_id);
            }
        }
        // The stream ends if the runtime stops; the waiters then poll.
        std::future::pending::<()>().await;
    };
    let limit = async {
        match args
            .timeout
            .map(|span| span.0)
            .filter(|time| !time.is_zero())
        {
            Some(limit) => {
                tokio::time::sleep(limit).await;
                limit
            }
            None => std::future::pending().await,
        }
    };
    let ends = tokio::select! {
        ends = all => ends?,
        () = reading => Vec::new(),
        limit = limit => bail!("the state was not reached within {limit:?}"),
    };
    let mut code = 0;
    for end in ends {
        match end {
            End::Exited(exit) => {
                write_all(&format!("{exit}\n"))?;
                code = if code == 0 { exit } else { code };
            }
            End::Other(word) => write_all(&format!("{word}\n"))?,
        }
    }
    let code = if args.exit_code { code } else { 0 };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn check(state: Option<State>, thing: &Thing, word: &str) -> anyhow::Result<()> {
    match (thing, state) {
        (Thing::Pod(_), Some(State::Created | State::Running | State::Exited)) => bail!(
            "`{word}` is a pod; wait for ready, notready or gone, or give a container as in \
             {word}/CONTAINER"
        ),
        (Thing::Container(_), Some(State::Ready | State::NotReady)) => {
            bail!("`{word}` is a container; wait for created, running, exited or gone")
        }
        _ => Ok(()),
    }
}

async fn wait(
    client: &RuntimeClient,
    thing: &Thing,
    state: Option<State>,
    mut events: broadcast::Receiver<String>,
    pause: Duration,
) -> anyhow::Result<End> {
    let (Thing::Container(id) | Thing::Pod(id)) = thing;
    loop {
        match look(client, thing, state).await {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            // A runtime that is being replaced responds again in a moment.
            Err(error) if error.code() == Code::Unavailable => {}
            Err(error) => return Err(error).with_context(|| format!("cannot wait for {id}")),
        }
        let _ = tokio::time::timeout(pause, async {
            loop {
                match events.recv().await {
                    Ok(about) if about != *id => {}
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        })
        .await;
    }
}

/// Returns whether the object has reached the state.
async fn look(
    client: &RuntimeClient,
    thing: &Thing,
    state: Option<State>,
) -> Result<Option<End>, ClientError> {
    match thing {
        Thing::Container(id) => match client.container_status(id, false).await {
            Err(error) if error.is_not_found() && state == Some(State::Gone) => {
                Ok(Some(End::Other("gone")))
            }
            Err(error) => Err(error),
            Ok(answer) => {
                let status = answer.status.unwrap_or_default();
                Ok(container(status.state(), status.exit_code, state))
            }
        },
        Thing::Pod(id) => match client.pod_sandbox_status(id, false).await {
            Err(error) if error.is_not_found() && state != Some(State::Ready) => {
                Ok(Some(End::Other("gone")))
            }
            Err(error) => Err(error),
            Ok(answer) => Ok(pod(answer.status.unwrap_or_default().state(), state)),
        },
    }
}

/// Compares the state of a container. One that exited has also been created and running.
fn container(now: ContainerState, exit: i32, wanted: Option<State>) -> Option<End> {
    match (wanted.unwrap_or(State::Exited), now) {
        (State::Exited, ContainerState::ContainerExited) => Some(End::Exited(exit)),
        (State::Running, ContainerState::ContainerRunning | ContainerState::ContainerExited) => {
            Some(End::Other("running"))
        }
        (
            State::Created,
            ContainerState::ContainerCreated
            | ContainerState::ContainerRunning
            | ContainerState::ContainerExited,
        ) => Some(End::Other("created")),
        _ => None,
    }
}

fn pod(now: PodSandboxState, wanted: Option<State>) -> Option<End> {
    match (wanted.unwrap_or(State::NotReady), now) {
        (State::Ready, PodSandboxState::SandboxReady) => Some(End::Other("ready")),
        (State::NotReady, PodSandboxState::SandboxNotready) => Some(End::Other("notready")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_has_also_run() {
        let exited = ContainerState::ContainerExited;
        let running = ContainerState::ContainerRunning;
        assert!(matches!(container(exited, 3, None), Some(End::Exited(3))));
        assert!(container(running, 0, None).is_none());
        assert!(container(exited, 0, Some(State::Running)).is_some());
        assert!(container(running, 0, Some(State::Gone)).is_none());
        assert!(pod(PodSandboxState::SandboxReady, None).is_none());
        assert!(pod(PodSandboxState::SandboxNotready, None).is_some());
    }
}
