//! `rm`: removes containers and their logs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cri::client::RuntimeClient;
use orlop_cri::v1::ContainerState;

use super::output::write_all;
use super::session::Session;
use super::{select, several};

/// Which containers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The containers
    #[arg(
        value_name = "CONTAINER",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    containers: Vec<String>,

    /// Those that run as well
    #[arg(short, long)]
    force: bool,

    /// Keep the log and its rotations
    #[arg(short, long)]
    keep_logs: bool,

    /// All containers
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let ids = if args.all {
        client
            .list_containers(None)
            .await?
            .into_iter()
            .map(|container| container.id)
            .collect()
    } else {
        select::containers(&client, &args.containers).await?
    };
    if ids.is_empty() {
        eprintln!("there is no container to remove");
    }
    several::each(ids, |id| {
        remove(client.clone(), id, args.force, args.keep_logs)
    })
    .await
}

async fn remove(
    client: RuntimeClient,
    id: String,
    force: bool,
    keep_logs: bool,
) -> anyhow::Result<()> {
    let answer = client.container_status(&id, false).await;
    let answer = answer.with_context(|| format!("cannot get the status of container {id}"))?;
    let status = answer.status.unwrap_or_default();
    if status.state() == ContainerState::ContainerRunning {
        if !force {
            bail!("container {id} is running: stop it first, or use --force");
        }
        let stopped = client.stop_container(&id, Duration::ZERO).await;
        stopped.with_context(|| format!("cannot stop container {id}"))?;
    }
    let removed = client.remove_container(&id).await;
    removed.with_context(|| format!("cannot remove container {id}"))?;
    if !keep_logs && !status.log_path.is_empty() {
        remove_logs(Path::new(&status.log_path));
    }
    Ok(write_all(&format!("{id}\n"))?)
}

/// Removes a log and its rotations. The container is gone: a log that stays is worth a word only.
fn remove_logs(log: &Path) {
    let (Some(directory), Some(name)) = (log.parent(), log.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let rotated = [name.as_encoded_bytes(), b"."].concat();
    for entry in entries.flatten() {
        let found = entry.file_name();
        let is_log = found == name || found.as_encoded_bytes().starts_with(&rotated);
        if is_log && let Err(error) = fs::remove_file(entry.path()) {
            eprintln!(
                "warning: cannot remove the log {}: {error}",
                entry.path().display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_with_its_rotations_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "0.log",
            "0.log.20260101-000000",
            "0.log.20260101-000000.gz",
            "1.log",
            "10.log",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_logs(&directory.path().join("0.log"));
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["1.log", "10.log"]);
    }
}
