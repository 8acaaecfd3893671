//! An OCI runtime that costs next to nothing, because it isolates nothing: its containers are
//! processes of the host's. With it as the runtime, what is measured is the rest of the way.
//!
//! It says that it is orlop-run, as far as others act on that: it keeps its state as runc does, so that
//! containers are let go and forgotten without a call, and moves nothing between cgroups.
#![allow(
    clippy::disallowed_methods,
    reason = "it reads what the engine and itself wrote"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["init", fifo, args @ ..] = &words[..] {
        return init(Path::new(fifo), args);
    }
    let call = Call::read(&words)?;
    match call.verb {
        "features" => {
            let version = "org.orlop.run.version";
            println!("{}", json!({ "annotations": { version: "0.1.0" } }));
            Ok(())
        }
        "create" => create(&call),
        "exec" => exec(&call),
        "kill" => {
            let pid = fs::read_to_string(call.state().join("pid"))?;
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            let pid = pid.context("no process id")?;
            Ok(rustix::process::kill_process(
                pid,
                rustix::process::Signal::KILL,
            )?)
        }
        "delete" => {
            if let Ok(pid) = fs::read_to_string(call.state().join("pid"))
                && let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            let _ = fs::remove_dir_all(call.state());
            Ok(())
        }
        other => bail!("{other} is none of this runtime's commands"),
    }
}

/// A command line as runc's, as far as it matters here.
struct Call<'a> {
    root: PathBuf,
    verb: &'a str,
    options: Vec<(&'a str, &'a str)>,
    id: &'a str,
}

impl<'a> Call<'a> {
    fn read(words: &[&'a str]) -> anyhow::Result<Self> {
        let mut options = Vec::new();
        let mut plain = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--detach" | "--force" | "--all" | "--version" => {}
                word if word.starts_with("--") => {
                    options.push((word, *words.next().context("a value is missing")?));
                }
                word => plain.push(word),
            }
        }
        let mut call = Self {
            root: PathBuf::new(),
            verb: plain.first().copied().unwrap_or("features"),
            options,
            id: plain.get(1).copied().unwrap_or_default(),
        };
        call.root = call.option("--root").unwrap_or_default().into();
        Ok(call)
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        let mut all = self.options.iter();
        all.find(|(option, _)| *option == name)
            .map(|(_, value)| *value)
    }

    fn state(&self) -> PathBuf {
        self.root.join(self.id)
    }

    fn write_pid(&self, pid: u32) -> anyhow::Result<()> {
        let Some(path) = self.option("--pid-file") else {
            return Ok(());
        };
        Ok(fs::write(path, pid.to_string())?)
    }
}

fn create(call: &Call<'_>) -> anyhow::Result<()> {
    let bundle = Path::new(call.option("--bundle").context("no bundle")?);
    let config: Value = serde_json::from_slice(&fs::read(bundle.join("config.json"))?)?;
    fs::create_dir_all(call.state())?;
    let fifo = call.state().join("exec.fifo");
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, &fifo, FileType::Fifo, mode, 0)?;
    // It is executed by a mount of its own, as orlop-run is: no path leads to that.
    let child = Command::new("/proc/self/exe")
        .arg("init")
        .arg(&fifo)
        .args(arguments(&config["process"])?)
        .spawn()?;
    fs::write(call.state().join("pid"), child.id().to_string())?;
    call.write_pid(child.id())
}

/// The container's process: waits in the fifo until it is let go.
fn init(fifo: &Path, args: &[&str]) -> anyhow::Result<()> {
    fs::File::options()
        .write(true)
        .open(fifo)?
        .write_all(b"0")?;
    let [program, args @ ..] = args else {
        bail!("nothing to run");
    };
    Err(Command::new(program).args(args).exec().into())
}

fn exec(call: &Call<'_>) -> anyhow::Result<()> {
    let process = call.option("--process").context("no process")?;
    let process: Value = serde_json::from_slice(&fs::read(process)?)?;
    let words = arguments(&process)?;
    let (program, words) = words.split_first().context("nothing to run")?;
    let mut command = Command::new(program);
    let child = command.args(words).stdin(Stdio::null()).spawn()?;
    call.write_pid(child.id())
}

fn arguments(process: &Value) -> anyhow::Result<Vec<&str>> {
    let args = process["args"].as_array().context("no args")?;
    Ok(args.iter().filter_map(Value::as_str).collect())
}
