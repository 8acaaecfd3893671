//! `rm`: removes containers and their logs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::{ContainerState, ContainerStatus};
use orlop_fs::LogPlace;

use crate::connect::Session;
use crate::families::removal::{self, Chosen, Removable};
use crate::input::select;
use crate::output::write_all;

/// Arguments of `rm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers
    #[arg(
        value_name = "CONTAINER",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    containers: Vec<String>,

    /// Also remove running containers
    #[arg(short, long)]
    force: bool,

    /// Keep the log file and its rotated files
    #[arg(short, long)]
    keep_logs: bool,

    /// Remove all containers
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let containers = Containers {
        client: session.patient_runtime(None).await?,
        keep_logs: args.keep_logs,
    };
    let chosen = Chosen {
        words: &args.containers,
        all: args.all,
        force: args.force,
    };
    removal::remove(&containers, chosen).await
}

struct Containers {
    client: RuntimeClient,
    keep_logs: bool,
}

impl Removable for Containers {
    const NAME: &'static str = "container";
    type Status = ContainerStatus;

    async fn all(&self) -> anyhow::Result<Vec<String>> {
        let all = self.client.list_containers(None).await?;
        Ok(all.into_iter().map(|container| container.id).collect())
    }

    async fn find(&self, words: &[String]) -> anyhow::Result<Vec<String>> {
        select::containers(&self.client, words).await
    }

    async fn status(&self, id: &str) -> anyhow::Result<ContainerStatus> {
        let answer = self.client.container_status(id, false).await?;
        Ok(answer.status.unwrap_or_default())
    }

    fn runs(status: &ContainerStatus) -> bool {
        status.state() == ContainerState::ContainerRunning
    }

    async fn stop(&self, id: &str) -> anyhow::Result<()> {
        Ok(self.client.stop_container(id, Duration::ZERO).await?)
    }

    async fn remove(&self, id: &str) -> anyhow::Result<()> {
        Ok(self.client.remove_container(id).await?)
    }

    fn removed(&self, id: &str, status: &ContainerStatus) -> anyhow::Result<()> {
        if !self.keep_logs && !status.log_path.is_empty() {
            remove_logs(Path::new(&status.log_path));
        }
        Ok(write_all(&format!("{id}\n"))?)
    }
}

/// Removes a log and its rotated files. The container is gone, so a failure is only reported.
fn remove_logs(log: &Path) {
    let warn = |name: &OsStr, error: io::Error| {
        if error.kind() != io::ErrorKind::NotFound {
            let log = log.with_file_name(name);
            say!("warning: cannot remove the log {}: {error}", log.display());
        }
    };
    // A container may have placed links in its log directory.
    let (place, parts) = match LogPlace::find(log).and_then(|place| {
        let parts = place.parts()?;
        Ok((place, parts))
    }) {
        Ok(found) => found,
        Err(error) => return warn(log.file_name().unwrap_or_default(), error),
    };
    for name in std::iter::once(place.name()).chain(parts.iter().map(OsString::as_os_str)) {
        if let Err(error) = place.remove(name) {
            warn(name, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
