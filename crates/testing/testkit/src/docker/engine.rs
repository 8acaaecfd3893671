//! Debian's Docker Engine in test directories, and the `docker` command to inspect it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;

use super::bridge::{self, Bridge};
use super::settings::Settings;
use crate::image::BuiltImage;
use crate::machine;
use crate::process::Process;
use crate::scratch::{Scratch, mount_disk};

const START_LIMIT: Duration = Duration::from_mins(1);
/// Time limit of a stop: the engine gives its containers ten seconds.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// An engine that ends with the test.
#[derive(Debug)]
pub struct DockerEngine {
    process: Option<Process>,
    settings: Settings,
    // Removed after the engine, and before the scratch name is released.
    bridge: Option<Bridge>,
    scratch: Scratch,
}

/// Checks whether an engine can be started here.
pub fn can_run() -> Result<(), String> {
    machine::is_root()?;
    for program in ["dockerd", "docker", "containerd", "runc", "busybox"] {
        machine::has_program(program)?;
    }
    Ok(())
}

impl DockerEngine {
    /// Returns a builder for an engine.
    pub fn settings() -> Settings {
        Settings::default()
    }

    /// Starts an engine without its own network.
    pub fn start() -> Self {
        Settings::default().start()
    }

    /// Starts an engine with live restore.
    pub fn start_with_live_restore() -> Self {
        Settings::default().live_restore().start()
    }

    pub(super) fn launch(settings: Settings) -> Self {
        let scratch = Scratch::new();
        let mut engine = Self {
            process: None,
            bridge: settings.bridge.then(|| Bridge::new(&scratch)),
            settings,
            scratch,
        };
        if let Some(size) = engine.settings.disk {
            mount_disk(&engine.data(), size);
        }
        engine.start_again();
        engine
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.scratch.run().join("docker.sock")
    }

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the engine runs").pid()
    }

    /// Returns its data directory.
    pub fn data(&self) -> PathBuf {
        self.scratch.subdir("docker")
    }

    /// Returns the bridge of its containers, if it has one.
    pub fn bridge(&self) -> Option<&str> {
        self.bridge.as_ref().map(Bridge::name)
    }

    /// Restarts it with the same directories.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "the engine still runs");
        std::fs::write(self.scratch.path("daemon.json"), self.daemon_json())
            .expect("write daemon.json");
        let mut command = self.command();
        let mut process =
            Process::spawn("dockerd", &mut command, &self.scratch.path("dockerd.log"));
        let (docker, socket) = (program_docker(), self.socket());
        process.wait_until(START_LIMIT, "answer", || {
            ask(&docker, &socket, &["version"]).status.success()
        });
        self.process = Some(process);
    }

    fn command(&self) -> Command {
        let run = self.scratch.run();
        let program = std::env::var_os("ORLOP_TEST_DOCKERD").map(PathBuf::from);
        let program = program
            .unwrap_or_else(|| machine::program("dockerd").unwrap_or_else(|e| panic!("{e}")));
        let mut command = Command::new(program);
        command
            .arg("--data-root")
            .arg(self.data())
            .arg("--exec-root")
            .arg(run.join("x"))
            .arg("--pidfile")
            .arg(run.join("docker.pid"))
            .arg("--config-file")
            .arg(self.scratch.path("daemon.json"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--ip-forward=false",
            ]);
        match &self.bridge {
            None => command.args(["--bridge=none", "--userland-proxy=false"]),
            Some(bridge) => {
                command.arg("--bridge").arg(bridge.name());
                command.args(["--ip-masq=false", "--userland-proxy=true"])
            }
        };
        if self.settings.ipv6 {
            let subnet = bridge::subnet_v6(&self.scratch);
            command.args(["--ipv6", "--fixed-cidr-v6", &subnet]);
        }
        command
    }

    fn daemon_json(&self) -> String {
        let runtimes: serde_json::Map<_, _> = self
            .settings
            .runtimes
            .iter()
            .map(|(name, program)| {
                let path = machine::program(program).unwrap_or_else(|e| panic!("{e}"));
                (name.clone(), json!({ "path": path }))
            })
            .collect();
        let mut told = json!({ "live-restore": self.settings.live_restore, "runtimes": runtimes });
        if let Some(name) = &self.settings.default_runtime {
            told["default-runtime"] = name.as_str().into();
        }
        told.to_string()
    }

    /// Stops it with SIGTERM, as a service manager does.
    pub fn stop(&mut self) {
        self.process
            .take()
            .expect("the engine runs")
            .stop(STOP_LIMIT);
    }

    /// Sends it a signal.
    pub fn signal(&mut self, signal: rustix::process::Signal) {
        self.process
            .as_mut()
            .expect("the engine runs")
            .signal(signal);
    }

    /// Runs the `docker` command, which must succeed, and returns what it printed.
    pub fn docker(&self, args: &[&str]) -> String {
        let output = self.try_docker(args);
        assert!(output.status.success(), "docker {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs the `docker` command and returns its output.
    pub fn try_docker(&self, args: &[&str]) -> Output {
        ask(&program_docker(), &self.socket(), args)
    }

    /// Loads an image under a name.
    pub fn load(&self, image: &BuiltImage, name: &str) {
        let archive = self.scratch.path("image.tar");
        std::fs::write(&archive, image.docker_archive(name)).expect("write an archive");
        self.docker(&["load", "--quiet", "--input", &archive.to_string_lossy()]);
        let _ = std::fs::remove_file(archive);
    }
}

fn program_docker() -> PathBuf {
    machine::program("docker").unwrap_or_else(|e| panic!("{e}"))
}

fn ask(docker: &Path, socket: &Path, args: &[&str]) -> Output {
    Command::new(docker)
        .env_remove("DOCKER_CONTEXT")
        .arg("--host")
        .arg(format!("unix://{}", socket.display()))
        .args(args)
        .output()
        .expect("run docker")
}

impl Drop for DockerEngine {
    fn drop(&mut self) {
        if self.process.is_none() && self.settings.live_restore {
            // Containers with live restore must be removed by a running engine.
            self.start_again();
        }
        if let Some(mut process) = self.process.take() {
            process.signal(rustix::process::Signal::CONT);
            let ids = ask(&program_docker(), &self.socket(), &["ps", "-aq"]);
            let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
            let ids: Vec<&str> = ids.split_whitespace().collect();
            if !ids.is_empty() {
                let mut args = vec!["rm", "-f", "-v"];
                args.extend(ids);
                ask(&program_docker(), &self.socket(), &args);
            }
            process.stop(STOP_LIMIT);
        }
    }
}
