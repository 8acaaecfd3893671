//! `inspect`: shows all details of containers.

use std::io::{self, Write};

use orlop_cri_api::json;
use orlop_cri_api::v1::{ContainerState, ContainerStatus};
use serde_json::Value;

use crate::connect::Session;
use crate::families::inspection::{self, Inspected, InspectionFlags, with_empty_parts};
use crate::input::select::{self, ContainerFlags};
use crate::output::{ago, labels, rfc3339};

/// Time of an event that has not happened.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers; without any, all containers that match the flags
    #[arg(value_name = "CONTAINER")]
    containers: Vec<String>,

    #[command(flatten)]
    which: ContainerFlags,

    /// Only containers in this state: created, running, exited or unknown
    #[arg(short, long)]
    state: Option<String>,

    /// Include containers that are not running
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    shown: InspectionFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.shown.format()?;
    let client = session.runtime().await?;
    let ids = if args.containers.is_empty() {
        let images = session.images().await?;
        let state = args.state.as_deref();
        let found = args
            .which
            .list(&client, &images, None, state, args.all)
            .await?;
        found.into_iter().map(|container| container.id).collect()
    } else {
        select::containers(&client, &args.containers).await?
    };
    let ask = async |id: &str| {
        let answer = client.container_status(id, !args.shown.quiet).await?;
        Ok((answer.status.unwrap_or_default(), answer.info))
    };
    inspection::show(ids, &args.shown, &format, ask).await
}

impl Inspected for ContainerStatus {
    const NAME: &'static str = "container";

    fn value(&self) -> Value {
        value(self)
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        table(out, self)
    }
}

/// Converts the status with readable times, and with all parts even if they are empty.
fn value(status: &ContainerStatus) -> Value {
    let mut value = json::to_value(status);
    let state = status.state();
    let started = state != ContainerState::ContainerCreated;
    let finished = state == ContainerState::ContainerExited
        || (state == ContainerState::ContainerUnknown && status.finished_at > 0);
    let time = |happened: bool, time: i64| {
        Value::String(if happened {
            rfc3339(time)
        } else {
            NEVER.to_owned()
        })
    };
    if let Value::Object(map) = &mut value {
        map.insert("createdAt".to_owned(), time(true, status.created_at));
        map.insert("startedAt".to_owned(), time(started, status.started_at));
        map.insert("finishedAt".to_owned(), time(finished, status.finished_at));
        with_empty_parts(map, &["metadata", "image", "resources", "user"]);
    }
    value
}

fn table(out: &mut impl Write, status: &ContainerStatus) -> io::Result<()> {
    writeln!(out, "ID: {}", status.id)?;
    if let Some(metadata) = &status.metadata {
        writeln!(out, "Name: {}", metadata.name)?;
        if metadata.attempt != 0 {
            writeln!(out, "Attempt: {}", metadata.attempt)?;
        }
    }
    let state = status.state();
    writeln!(out, "State: {}", state.as_str_name())?;
    writeln!(out, "Created: {}", ago(status.created_at))?;
    if state != ContainerState::ContainerCreated {
        writeln!(out, "Started: {}", ago(status.started_at))?;
    }
    if state == ContainerState::ContainerExited {
        if status.finished_at > 0 {
            writeln!(out, "Finished: {}", ago(status.finished_at))?;
        }
        writeln!(out, "Exit Code: {}", status.exit_code)?;
    }
    labels(out, "Labels", &status.labels)?;
    labels(out, "Annotations", &status.annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_have_not_come_are_never() {
        let status = ContainerStatus {
            state: ContainerState::ContainerRunning.into(),
            created_at: 1_700_000_000_000_000_000,
            started_at: 1_700_000_001_000_000_000,
            ..Default::default()
        };
        let value = value(&status);
        assert_eq!(value["finishedAt"], NEVER);
        assert_ne!(value["startedAt"], NEVER);
        assert!(value["resources"].is_null());
        assert_eq!(value["state"], "CONTAINER_RUNNING");
    }
}
