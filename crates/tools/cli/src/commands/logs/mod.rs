//! `logs`: shows the log of a container, or of all containers of a pod, from files on this machine.

mod pod;
mod printer;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::log::{Line, Stream};
use orlop_cri_api::v1::{ContainerFilter, ContainerState, ContainerStatus};
use orlop_fs::FollowedLog as Log;

use crate::connect::{Dialect, Session};
use crate::input::moment;
use crate::input::select::{self, Thing};
use printer::Printer;

/// Intervals at which a followed log and its container are polled.
const GLANCE: Duration = Duration::from_millis(100);
const GLANCES_PER_STATUS: u32 = 10;

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name or ID of the container, or of a pod for the logs of all its containers
    #[arg(value_name = "CONTAINER|POD", required_unless_present = "pod")]
    container: Option<String>,

    /// Show the logs of all containers of this pod, or only of those with the given name
    #[arg(long)]
    pod: Option<String>,

    /// Follow the log until the container exits (for a pod: until the pod stops)
    #[arg(short, long)]
    follow: bool,

    /// Show the log of the previous instance of the container
    #[arg(short, long)]
    previous: bool,

    /// Ask the runtime to reopen the log file first
    #[arg(short, long, conflicts_with = "pod")]
    reopen: bool,

    /// Show only the last N lines of each container
    #[arg(long, value_name = "LINES", allow_negative_numbers = true, default_value_t = -1)]
    tail: i64,

    /// Show at most N bytes
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, default_value_t = -1)]
    limit_bytes: i64,

    /// Show only lines since this time: 42m, 2026-01-02T13:23:37, or seconds since the epoch
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Show timestamps
    #[arg(short, long)]
    timestamps: bool,

    /// Show only this stream: stdout or stderr
    #[arg(short, long, value_parser = ["stdout", "stderr"], conflicts_with = "tail")]
    stream: Option<String>,

    /// Do not print the container name before each line of a pod
    #[arg(long)]
    no_prefix: bool,
}

/// The requested part of a log.
#[derive(Debug, Clone, Copy)]
struct Part {
    since: Option<Timestamp>,
    only: Option<Stream>,
    tail: Option<u64>,
    limit: Option<u64>,
    timestamps: bool,
}

impl Args {
    fn part(&self) -> anyhow::Result<Part> {
        Ok(Part {
            since: self.since.as_deref().map(moment).transpose()?,
            only: match self.stream.as_deref() {
                Some("stdout") => Some(Stream::Stdout),
                Some(_) => Some(Stream::Stderr),
                None => None,
            },
            tail: u64::try_from(self.tail).ok(),
            limit: u64::try_from(self.limit_bytes).ok(),
            timestamps: self.timestamps,
        })
    }
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let part = args.part()?;
    let client = session.runtime().await?;
    let id = match (&args.pod, &args.container) {
        (Some(pod), name) => {
            let pod = select::pod(&client, pod).await?;
            return pod::run(&client, &pod, name.as_deref(), &args, part).await;
        }
        // In crictl mode the argument is never a pod, and the runtime reports an unknown container.
        (None, Some(word)) if session.dialect == Dialect::Crictl => {
            select::container(&client, word).await?
        }
        (None, Some(word)) => match select::thing(&client, word).await? {
            Thing::Container(id) => id,
            Thing::Pod(pod) => return pod::run(&client, &pod, None, &args, part).await,
        },
        (None, None) => bail!("no container and no pod given"),
    };
    if args.reopen {
        client
            .reopen_container_log(&id)
            .await
            .context("cannot reopen the log")?;
        say!("the log was reopened");
    }
    let status = client
        .container_status(&id, false)
        .await?
        .status
        .unwrap_or_default();
    let mut log = open(&client, &status, args.previous, part).await?;
    let mut printer = Printer {
        since: part.since,
        only: part.only,
        timestamps: part.timestamps,
        left: part.limit,
        begin: [true; 2],
    };
    let follow = args.follow && !args.previous;
    follow_log(&mut log, &mut printer, follow.then_some((&client, &id))).await
}

/// Opens a container's log at the start of the requested part.
async fn open(
    client: &RuntimeClient,
    status: &ContainerStatus,
    previous: bool,
    part: Part,
) -> anyhow::Result<Log> {
    let path = log_path(status, previous)?;
    let id = if previous {
        id_before(client, status).await?
    } else {
        status.id.clone()
    };
    let mut log = Log::open(&path, &id)?;
    if let Some(lines) = part.tail {
        log.seek_tail(lines, u64::MAX, Line::goes_on)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(log)
}

/// Returns the path of the log.
fn log_path(status: &ContainerStatus, previous: bool) -> anyhow::Result<PathBuf> {
    if status.log_path.is_empty() {
        bail!(
            "the container has no log; it was created without a log path, or its pod without a log \
             directory"
        );
    }
    let path = PathBuf::from(&status.log_path);
    if !previous {
        return Ok(path);
    }
    let metadata = status.metadata.clone().unwrap_or_default();
    let Some(attempt) = metadata.attempt.checked_sub(1) else {
        bail!("container {} has no previous instance", metadata.name);
    };
    // The kubelet names logs by attempt.
    Ok(path.with_file_name(format!("{attempt}.log")))
}

/// Returns the ID of the previous instance; empty if the runtime no longer has it.
async fn id_before(client: &RuntimeClient, status: &ContainerStatus) -> anyhow::Result<String> {
    let own = ["io.kubernetes.pod.uid", "io.kubernetes.container.name"];
    let labels = status.labels.iter();
    let label_selector = labels
        .filter(|(key, _)| own.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()));
    let filter = ContainerFilter {
        label_selector: label_selector.collect(),
        ..Default::default()
    };
    let metadata = status.metadata.clone().unwrap_or_default();
    let before = metadata.attempt.checked_sub(1);
    let mut found = client.list_containers(Some(filter)).await?.into_iter();
    let found = found.find(|container| {
        let its = container.metadata.as_ref();
        its.is_some_and(|its| its.name == metadata.name && Some(its.attempt) == before)
    });
    Ok(found.map(|container| container.id).unwrap_or_default())
}

/// Prints until the end of the log; with a container, until it has exited and everything is printed.
async fn follow_log(
    log: &mut Log,
    printer: &mut Printer,
    container: Option<(&RuntimeClient, &String)>,
) -> anyhow::Result<()> {
    let mut glances = 0;
    let mut ended = false;
    loop {
        let more = {
            let mut out = crate::output::stdout();
            let more = printer.all(log, &mut out)?;
            out.flush()?;
            more
        };
        let Some((client, id)) = container else {
            return Ok(());
        };
        if !more || ended {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
        glances += 1;
        if log.follow_rotation()? {
            continue;
        }
        if glances % GLANCES_PER_STATUS == 0 {
            // Read once more after the exit: the last lines may be written during the query.
            ended = !runs(client, id).await;
        }
    }
}

/// Returns whether more output may come. A runtime that does not respond may be restarting while its containers run on.
async fn runs(client: &RuntimeClient, id: &str) -> bool {
    match client.container_status(id, false).await {
        Ok(answer) => {
            let status = answer.status.unwrap_or_default();
            status.state() != ContainerState::ContainerExited
        }
        Err(error) => !error.is_not_found(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_log_before_has_the_attempt_before_in_its_name() {
        let status = |attempt| ContainerStatus {
            log_path: "/var/log/pods/p/c/3.log".into(),
            metadata: Some(orlop_cri_api::v1::ContainerMetadata {
                name: "c".into(),
                attempt,
            }),
            ..Default::default()
        };
        assert_eq!(
            log_path(&status(3), true).unwrap(),
            Path::new("/var/log/pods/p/c/2.log")
        );
        assert_eq!(
            log_path(&status(3), false).unwrap(),
            Path::new("/var/log/pods/p/c/3.log")
        );
        assert!(log_path(&status(0), true).is_err());
        assert!(log_path(&ContainerStatus::default(), false).is_err());
    }
}
