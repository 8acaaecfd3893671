//! orlop's own client, at the endpoint of a node.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::{Node, binary};
use crate::process::Killed;

/// The client at an endpoint. It reads no configuration, and no input unless it is given some.
#[derive(Debug)]
pub struct Client {
    /// The program, which does as its name says.
    pub program: PathBuf,
    /// Where it asks.
    pub endpoint: String,
}

impl Client {
    /// At a socket, under its own name.
    pub fn at(socket: &Path) -> Self {
        Self {
            program: binary(),
            endpoint: format!("unix://{}", socket.display()),
        }
    }

    /// A command of it.
    pub fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--config", "/dev/null", "--runtime-endpoint"])
            .arg(&self.endpoint)
            .args(line)
            .env_remove("CONTAINER_RUNTIME_ENDPOINT")
            .env_remove("CRI_CONFIG_FILE")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// A command that runs, its output to be read.
    pub fn begin(&self, line: &[&str]) -> Child {
        let mut command = self.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("run orlop")
    }

    /// A command that runs and reads what it is given.
    pub fn piped(&self, line: &[&str]) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("run orlop")
    }

    /// How a command ends, and what it prints.
    pub fn run(&self, line: &[&str]) -> Output {
        self.command(line).output().expect("run orlop")
    }

    /// Whether a command succeeds, and all that it prints.
    pub fn said(&self, line: &[&str]) -> (bool, String) {
        let output = self.run(line);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.success(), text)
    }

    /// What a command prints, which succeeds.
    #[track_caller]
    pub fn succeeds(&self, line: &[&str]) -> Output {
        let output = self.run(line);
        assert!(output.status.success(), "{line:?}: {output:?}");
        output
    }

    /// What a command prints to its standard output, which succeeds.
    #[track_caller]
    pub fn out(&self, line: &[&str]) -> String {
        String::from_utf8(self.succeeds(line).stdout).expect("text")
    }

    /// What a command prints to its standard output and to its standard error, which succeeds.
    #[track_caller]
    pub fn both(&self, line: &[&str]) -> (String, String) {
        let output = self.succeeds(line);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    }

    /// The same, read as JSON.
    #[track_caller]
    pub fn json(&self, line: &[&str]) -> Value {
        serde_json::from_str(&self.out(line)).expect("JSON")
    }

    /// What a command that fails with 1 says.
    #[track_caller]
    pub fn error(&self, line: &[&str]) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

impl Node {
    /// The client at this node.
    pub fn client(&self) -> Client {
        Client::at(&self.socket())
    }
}

/// `orlop web`, which serves a page of the node at a socket.
#[derive(Debug)]
pub struct WebServer {
    process: Killed,
    /// Its address, with the token.
    pub address: String,
}

impl WebServer {
    /// Starts it.
    pub fn start(socket: &Path, flags: &[&str]) -> Self {
        let mut process = Command::new(binary())
            .args(["web", "-r"])
            .arg(format!("unix://{}", socket.display()))
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("run orlop web");
        let said = BufReader::new(process.stdout.take().expect("its output"));
        let address = said.lines().map_while(Result::ok).find_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            words.find(|word| word.starts_with("http://127.0.0.1:"))
        });
        Self {
            process: Killed(process),
            address: address.expect("an address"),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// Interrupts a command, as ctrl-c does. It may have ended by itself.
pub fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.expect("a process"), Signal::INT);
}
