//! A runtime under measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::{Scratch, machine};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::bundle::Bundle;

/// A program with runc's command line.
pub(crate) struct Runtime {
    pub(crate) name: String,
    program: PathBuf,
    root: PathBuf,
    id: String,
    pid_file: PathBuf,
}

/// How long the parts of one life took.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) create: Duration,
    pub(crate) start: Duration,
    pub(crate) delete: Duration,
}

impl Runtime {
    /// Ours, and those that are here.
    pub(crate) fn all(scratch: &Scratch) -> Vec<Self> {
        let mut found = vec![("orlop-run".to_owned(), ours())];
        found.extend(
            machine::program("runc")
                .ok()
                .map(|program| ("runc".to_owned(), program)),
        );
        let newer = PathBuf::from("/usr/local/lib/orlop-test/bin/crun");
        let crun = Some(newer).filter(|path| path.is_file());
        let crun = crun.or_else(|| machine::program("crun").ok());
        found.extend(crun.map(|program| ("crun".to_owned(), program)));
        match machine::program("youki") {
            Ok(program) => found.push(("youki".to_owned(), program)),
            Err(_) => println!("youki is not compared with: it is not on the path"),
        }
        let more = std::env::var_os("ORLOP_BENCH_RUNTIMES").unwrap_or_default();
        let more = std::env::split_paths(&more).filter(|path| path.is_file());
        found.extend(more.map(|program| (version(&program), program)));
        let numbered = found.into_iter().enumerate();
        numbered
            .map(|(at, (name, program))| Self::new(at, name, program, scratch))
            .collect()
    }

    fn new(at: usize, name: String, program: PathBuf, scratch: &Scratch) -> Self {
        println!("{name}: {}, {}", program.display(), version(&program));
        let id = format!("{}-{at}", scratch.id());
        Self {
            name,
            program,
            root: scratch.run().join(&id),
            pid_file: scratch.path(&format!("{id}.pid")),
            id,
        }
    }

    /// Creates, starts and deletes a container whose process ends at once.
    pub(crate) fn life(&self, bundle: &Bundle) -> Times {
        let bundle = bundle.of(&self.id, &["/bin/true"]);
        let (create, pid) = self.create(&bundle);
        let start = self.call(&["start", &self.id]);
        waitpid(Some(pid), WaitOptions::empty()).expect("wait for the container");
        let delete = self.call(&["delete", &self.id]);
        Times {
            create,
            start,
            delete,
        }
    }

    /// Has a container that stays.
    pub(crate) fn keep(&self, bundle: &Bundle) {
        let bundle = bundle.of(&self.id, &["/bin/sleep", "100000"]);
        self.create(&bundle);
        self.call(&["start", &self.id]);
    }

    /// Runs a command in it.
    pub(crate) fn exec(&self) -> Duration {
        self.call(&["exec", &self.id, "/bin/true"])
    }

    /// Ends the one that stayed.
    pub(crate) fn let_go(&self) {
        self.call(&["kill", &self.id, "KILL"]);
        let pid = self.pid();
        waitpid(Some(pid), WaitOptions::empty()).expect("wait for the container");
        self.call(&["delete", &self.id]);
    }

    fn create(&self, bundle: &Path) -> (Duration, Pid) {
        let (bundle, pid_file) = (bundle.to_string_lossy(), self.pid_file.to_string_lossy());
        let words = [
            "create",
            "--bundle",
            &bundle,
            "--pid-file",
            &pid_file,
            &self.id,
        ];
        let time = self.call(&words);
        (time, self.pid())
    }

    fn pid(&self) -> Pid {
        let text = std::fs::read_to_string(&self.pid_file).expect("a pid file");
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        pid.unwrap_or_else(|| panic!("{} wrote as the pid {text:?}", self.name))
    }

    fn call(&self, words: &[&str]) -> Duration {
        let mut command = Command::new(&self.program);
        command.arg("--root").arg(&self.root).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let begin = Instant::now();
        let status = command.status().expect("run a runtime");
        let time = begin.elapsed();
        assert!(status.success(), "{}: {words:?}: {status}", self.name);
        time
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // What a failed measurement left.
        if self.root.join(&self.id).exists() {
            let mut command = Command::new(&self.program);
            command.arg("--root").arg(&self.root);
            let _ = command.args(["delete", "--force", &self.id]).status();
        }
    }
}

/// The program that `ORLOP_RUN` names, as `make bench` does with the one that is installed, else the
/// one that was built with this.
fn ours() -> PathBuf {
    let named = std::env::var_os("ORLOP_RUN");
    named.map_or_else(|| env!("CARGO_BIN_EXE_orlop-run").into(), PathBuf::from)
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or("of no version").to_owned()
}
