//! One bundle on one runtime, from its beginning to what is left of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bundle::{Life, PROBE, Wish};
use crate::cgroups;
use crate::console::Console;
use crate::ground::Ground;
use crate::runtime::{LIMIT, Runtime};
use crate::seen::{self, Facts};

/// The fact of which devices of the machine are not as they were.
pub(crate) const DEVICES: &str = "left/devices that are changed";

/// What became of a bundle.
pub(crate) struct Outcome {
    /// `ran`, or which command refused it.
    pub(crate) end: String,
    /// The runtime's own words.
    pub(crate) said: String,
    pub(crate) facts: Facts,
}

/// Has the runtime run the bundle, and removes what is left.
pub(crate) fn live(wish: &Wish, runtime: &Runtime, ground: &Ground) -> Outcome {
    ground.lay(wish);
    let mut outcome = match wish.life {
        Life::Run => run(runtime, ground),
        Life::Steps => steps(wish, runtime, ground),
    };
    let states = fs::read_dir(runtime.root()).into_iter().flatten().flatten();
    let states: Vec<_> = states
        .filter(|entry| entry.file_name() == *ground.id())
        .collect();
    if outcome.end != "ran" || !states.is_empty() {
        let forced = runtime.ask(ground, &["delete", "--force", ground.id()]);
        if outcome.end == "ran" {
            outcome.said.push_str(&forced.err);
        }
    }
    let facts = &mut outcome.facts;
    facts.insert("left/states".to_owned(), states.len().to_string());
    facts.insert(
        "left/cgroups".to_owned(),
        cgroups::left(ground.id()).join(" "),
    );
    cgroups::remove(ground.id());
    facts.insert(DEVICES.to_owned(), ground.changed_devices());
    for (path, look) in left_in_root(&ground.bundle().join("rootfs")) {
        facts.insert(format!("left/root/{path}"), look);
    }
    if let Ok(text) = fs::read_to_string(ground.bundle().join("hooks")) {
        for (at, line) in text.lines().enumerate() {
            let mut line: Value = serde_json::from_str(line).unwrap_or_default();
            if line["directory"].as_str() == ground.bundle().to_str() {
                line["directory"] = "the bundle".into();
            }
            seen::flatten(&format!("hooks/{at}"), &line, facts);
        }
    }
    outcome
}

fn run(runtime: &Runtime, ground: &Ground) -> Outcome {
    let bundle = ground.bundle();
    let words = ["run", "--bundle", &bundle.to_string_lossy(), ground.id()];
    let mut begun = runtime.begin(ground, &words, Stdio::piped());
    let lines = lines(begun.child.stdout.take().expect("a pipe"));
    let answer = begun.end();
    let mut facts = Facts::new();
    let code = answer
        .code
        .map_or("none".to_owned(), |code| code.to_string());
    let told = lines.recv_timeout(Duration::from_secs(2)).ok();
    facts.insert("exit code".to_owned(), code);
    let Some(report) = told.as_deref().and_then(seen::report) else {
        let end = match answer.code {
            Some(_) => "refused by run",
            None => "hung in run",
        };
        return Outcome {
            end: end.to_owned(),
            said: format!("{} {}", answer.err, told.unwrap_or_default()),
            facts,
        };
    };
    seen::note("", &report, ground, &mut facts);
    Outcome {
        end: "ran".to_owned(),
        said: answer.err,
        facts,
    }
}

fn steps(wish: &Wish, runtime: &Runtime, ground: &Ground) -> Outcome {
    let mut facts = Facts::new();
    let refused = |step: &str, said: String, facts: Facts| Outcome {
        end: format!("refused by {step}"),
        said,
        facts,
    };
    let mut wish = wish.clone();
    let args = &mut wish.process()["args"];
    if args[1] == "end" {
        *args = serde_json::json!([PROBE]);
    }
    Wish::add(args, "wait".into());
    ground.lay(&wish);

    let (id, bundle) = (ground.id(), ground.bundle());
    let pid_file = ground.scratch.path("pid");
    let _ = fs::remove_file(&pid_file);
    let (bundle, pid_file) = (bundle.to_string_lossy(), pid_file.to_string_lossy());
    let mut words = vec!["create", "--bundle", &bundle, "--pid-file", &pid_file];
    let terminal = wish.config["process"]["terminal"] == true;
    let console = terminal.then(|| Console::new(&ground.scratch.run().join("console")));
    let socket = console
        .as_ref()
        .map(|console| console.path().to_string_lossy());
    if let Some(socket) = &socket {
        words.extend(["--console-socket", socket]);
    }
    words.push(id);
    let mut begun = runtime.begin(ground, &words, Stdio::piped());
    let pipe = begun.child.stdout.take().expect("a pipe");
    let created = begun.end();
    if created.code != Some(0) {
        return refused("create", created.err, facts);
    }
    let lines = match &console {
        None => lines(pipe),
        Some(console) => match console.terminal(Duration::from_secs(5)) {
            Some(terminal) => self::lines(terminal),
            None => return refused("create, of a terminal", created.err, facts),
        },
    };
    let pid = fs::read_to_string(&*pid_file).unwrap_or_default();
    match pid.trim().parse() {
        Ok(pid) => {
            for (name, value) in cgroups::of(pid) {
                facts.insert(format!("cgroup/{name}"), value);
            }
        }
        Err(_) => drop(facts.insert("pid file".to_owned(), pid)),
    }
    state("created", runtime, ground, &mut facts);
    let started = runtime.ask(ground, &["start", id]);
    if started.code != Some(0) {
        return refused("start", started.err, facts);
    }
    let told = lines.recv_timeout(LIMIT).ok();
    let Some(report) = told.as_deref().and_then(seen::report) else {
        let said = format!("{} {}", started.err, told.unwrap_or_default());
        return refused("the process itself", said, facts);
    };
    seen::note("", &report, ground, &mut facts);
    state("running", runtime, ground, &mut facts);
    let mut said = started.err;
    if let Some(process) = &wish.exec {
        said.push_str(&exec(process, runtime, ground, &mut facts));
    }
    end(runtime, ground, &mut facts);
    Outcome {
        end: "ran".to_owned(),
        said,
        facts,
    }
}

fn exec(process: &Value, runtime: &Runtime, ground: &Ground, facts: &mut Facts) -> String {
    let file = ground.scratch.path("process.json");
    fs::write(&file, process.to_string()).expect("write process.json");
    let file = file.to_string_lossy();
    let mut words = vec!["exec", "--process", &file];
    let terminal = process["terminal"] == true;
    let console = terminal.then(|| Console::new(&ground.scratch.run().join("console")));
    let socket = console
        .as_ref()
        .map(|console| console.path().to_string_lossy());
    if let Some(socket) = &socket {
        words.extend(["--detach", "--console-socket", socket]);
    }
    words.push(ground.id());
    let mut begun = runtime.begin(ground, &words, Stdio::piped());
    let pipe = begun.child.stdout.take().expect("a pipe");
    let told = match &console {
        None => lines(pipe).recv_timeout(LIMIT).ok(),
        Some(console) => console
            .terminal(Duration::from_secs(5))
            .and_then(|terminal| lines(terminal).recv_timeout(LIMIT).ok()),
    };
    let answer = begun.end();
    let code = answer
        .code
        .map_or("none".to_owned(), |code| code.to_string());
    if let Some(report) = told.as_deref().and_then(seen::report) {
        facts.insert("exec/exit code".to_owned(), code);
        seen::note("exec/", &report, ground, facts);
        String::new()
    } else {
        facts.insert("exec".to_owned(), "refused".to_owned());
        format!(" exec: {} {}", answer.err, told.unwrap_or_default())
    }
}

/// Kills it, sees that it is known to have ended, deletes it.
fn end(runtime: &Runtime, ground: &Ground, facts: &mut Facts) {
    let id = ground.id();
    let killed = runtime.ask(ground, &["kill", id, "KILL"]);
    facts.insert("kill".to_owned(), format!("{:?}", killed.code));
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let answer = runtime.ask(ground, &["state", id]);
        let state: Value = serde_json::from_str(&answer.out).unwrap_or_default();
        if state["status"] == "stopped" {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    state("stopped", runtime, ground, facts);
    let deleted = runtime.ask(ground, &["delete", id]);
    facts.insert("delete".to_owned(), format!("{:?}", deleted.code));
    let gone = runtime.ask(ground, &["state", id]);
    let known = gone.code == Some(0);
    facts.insert("known after delete".to_owned(), known.to_string());
}

/// What `state` tells; a pid by whether there is one.
fn state(when: &str, runtime: &Runtime, ground: &Ground, facts: &mut Facts) {
    let answer = runtime.ask(ground, &["state", ground.id()]);
    let mut state: Value = serde_json::from_str(&answer.out).unwrap_or_default();
    if let Some(state) = state.as_object_mut() {
        for differing in ["ociVersion", "created"] {
            state.remove(differing);
        }
        if let Some(pid) = state.get_mut("pid") {
            *pid = pid.as_i64().is_some_and(|pid| pid > 0).into();
        }
    }
    seen::flatten(&format!("state/{when}"), &state, facts);
}

/// The lines that come, as they come.
fn lines(from: impl Into<std::os::fd::OwnedFd>) -> Receiver<String> {
    let (sender, receiver) = channel();
    let reader = BufReader::new(File::from(from.into()));
    std::thread::spawn(move || {
        for line in reader.lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What the runtime made in the root file system: places of mounts.
fn left_in_root(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

fn walk(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let within = path.strip_prefix(root).unwrap_or(&path);
        let Ok(look) = entry.metadata() else { continue };
        let (uid, gid, mode) = (look.uid(), look.gid(), look.mode());
        let name = within.to_string_lossy().into_owned();
        found.insert(name, format!("{mode:o} {uid}:{gid}"));
        if look.is_dir() {
            walk(root, &path, found);
        }
    }
}
