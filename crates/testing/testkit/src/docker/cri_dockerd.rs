//! A CRI server for an engine: cri-dockerd or a compatible program, if installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::engine::DockerEngine;
use crate::cri::Cri;
use crate::process::Process;

const START_LIMIT: Duration = Duration::from_secs(30);

/// A server that ends on drop, while its pods continue to run.
#[derive(Debug)]
pub struct CriDockerd {
    process: Process,
    socket: PathBuf,
}

/// Directories shared with an earlier or later server.
#[derive(Debug, Clone, Copy)]
pub struct Shared<'a> {
    /// CNI configuration directory.
    pub cni_conf: &'a Path,
    /// Cache of CNI results.
    pub cni_cache: &'a Path,
    /// Parent directory of the checkpoints.
    pub root: &'a Path,
}

impl CriDockerd {
    /// Returns the program in `ORLOP_TEST_CRI_DOCKERD`.
    pub fn program() -> Result<PathBuf, String> {
        std::env::var_os("ORLOP_TEST_CRI_DOCKERD")
            .map(PathBuf::from)
            .ok_or_else(|| "has no cri-dockerd (ORLOP_TEST_CRI_DOCKERD names one)".to_owned())
    }

    /// Starts the server, with its socket and log in `dir`.
    pub fn start(
        program: &Path,
        engine: &DockerEngine,
        pause: &str,
        shared: Shared<'_>,
        dir: &Path,
    ) -> Self {
        let socket = dir.join("cri.sock");
        let _ = std::fs::remove_file(&socket);
        let mut command = Self::command(program, engine, pause, shared, &socket);
        let mut process = Process::spawn("cri-dockerd", &mut command, &dir.join("cri-dockerd.log"));
        process.wait_until(START_LIMIT, "make its socket", || socket.exists());
        Self { process, socket }
    }

    /// Returns the command for a server on this socket.
    pub fn command(
        program: &Path,
        engine: &DockerEngine,
        pause: &str,
        shared: Shared<'_>,
        socket: &Path,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .arg("--container-runtime-endpoint")
            .arg(format!("unix://{}", socket.display()))
            .arg("--docker-endpoint")
            .arg(format!("unix://{}", engine.socket().display()))
            .args(["--pod-infra-container-image", pause])
            .args(["--network-plugin=cni", "--cni-bin-dir=/usr/lib/cni"])
            .arg("--cni-conf-dir")
            .arg(shared.cni_conf)
            .arg("--cni-cache-dir")
            .arg(shared.cni_cache)
            .arg("--cri-dockerd-root-directory")
            .arg(shared.root)
            .args(["--streaming-bind-addr=127.0.0.1:0"]);
        command
    }

    /// Connects clients to its socket.
    pub async fn cri(&self) -> Cri {
        Cri::connect(&self.socket)
            .await
            .expect("connect to the server's socket")
    }

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}
