//! orlop's client commands at the endpoint of a node.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::{Node, binary};
use crate::process::Killed;

/// Client of an endpoint. It reads no configuration, and no input unless it is given some.
#[derive(Debug)]
pub struct Client {
    /// The program, whose file name selects its mode.
    pub program: PathBuf,
    /// The endpoint.
    pub endpoint: String,
}

impl Client {
    /// Creates a client of a socket, under the name `orlop`.
    pub fn at(socket: &Path) -> Self {
        Self {
            program: binary(),
            endpoint: format!("unix://{}", socket.display()),
        }
    }

    /// Returns a command.
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

    /// Starts a command with piped output.
    pub fn begin(&self, line: &[&str]) -> Child {
        let mut command = self.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("run orlop")
    }

    /// Starts a command with piped input and output.
    pub fn piped(&self, line: &[&str]) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("run orlop")
    }

    /// Runs a command and returns its status and output.
    pub fn run(&self, line: &[&str]) -> Output {
        self.command(line).output().expect("run orlop")
    }

    /// Runs a command and returns whether it succeeds, and all its output.
    pub fn said(&self, line: &[&str]) -> (bool, String) {
        let output = self.run(line);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.success(), text)
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn succeeds(&self, line: &[&str]) -> Output {
        let output = self.run(line);
        assert!(output.status.success(), "{line:?}: {output:?}");
        output
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    pub fn out(&self, line: &[&str]) -> String {
        String::from_utf8(self.succeeds(line).stdout).expect("text")
    }

    /// Runs a command that must succeed, and returns its standard output and standard error.
    #[track_caller]
    pub fn both(&self, line: &[&str]) -> (String, String) {
        let output = self.succeeds(line);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    }

    /// Runs a command that must succeed, and parses its output as JSON.
    #[track_caller]
    pub fn json(&self, line: &[&str]) -> Value {
        serde_json::from_str(&self.out(line)).expect("JSON")
    }

    /// Runs a command that must fail with 1, and returns its error message.
    #[track_caller]
    pub fn error(&self, line: &[&str]) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

impl Node {
    /// Returns a client of this node.
    pub fn client(&self) -> Client {
        Client::at(&self.socket())
    }
}

/// A running `orlop web`, which serves a page of a node.
#[derive(Debug)]
pub struct WebServer {
    process: Killed,
    /// URL with the token.
    pub address: String,
}

impl WebServer {
    /// Starts the server.
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

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// Interrupts a command like ctrl-c. It may have exited already.
pub fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.expect("a process"), Signal::INT);
}
