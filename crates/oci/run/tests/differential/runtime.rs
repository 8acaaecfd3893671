//! The runtimes that are compared, as commands.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::machine;

use crate::ground::Ground;

/// What any command of a runtime may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A program with runc's command line.
pub(crate) struct Runtime {
    pub(crate) name: String,
    program: PathBuf,
    /// Where it keeps its states.
    root: PathBuf,
}

/// How a command ended.
pub(crate) struct Answer {
    /// The code, 128 and the signal that ended it, or none where it had to be killed.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Whether there is anything to compare with.
pub(crate) fn can_compare() -> Result<(), String> {
    machine::is_root()?;
    machine::has_program("nsenter")?;
    peers().map(drop)
}

/// The one that is judged.
pub(crate) fn subject(ground: &Ground) -> Runtime {
    let named = ["ORLOP_RUN", "ORLOP_RUN_BIN"].into_iter();
    let program = named.filter_map(std::env::var_os).map(PathBuf::from).next();
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_orlop-run").into());
    Runtime::new("judged", program, ground)
}

/// Those that it is compared with.
pub(crate) fn references(ground: &Ground) -> Vec<Runtime> {
    let peers = peers().expect("asked before");
    peers
        .into_iter()
        .map(|(name, program)| Runtime::new(name, program, ground))
        .collect()
}

fn peers() -> Result<Vec<(&'static str, PathBuf)>, String> {
    let runc = machine::program("runc")?;
    let mut peers = vec![("runc", runc)];
    // The one that .ci/newer brings knows more.
    let newer = PathBuf::from("/usr/local/lib/orlop-test/bin/crun");
    let crun = if newer.is_file() {
        Ok(newer)
    } else {
        machine::program("crun")
    };
    peers.push(("crun", crun?));
    let more = std::env::var_os("ORLOP_DIFFERENTIAL_MORE").unwrap_or_default();
    for program in std::env::split_paths(&more).filter(|path| path.is_absolute()) {
        peers.push(("another", program));
    }
    Ok(peers)
}

impl Runtime {
    fn new(name: &str, program: PathBuf, ground: &Ground) -> Self {
        Self {
            name: name.to_owned(),
            program,
            root: ground.scratch.run().join(name),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a command with streams that are not the test's.
    pub(crate) fn begin(&self, ground: &Ground, words: &[&str], out: Stdio) -> Begun {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount={}", ground.mount_namespace()))
            .arg("--")
            .arg(&self.program);
        let said = ground.scratch.path("said");
        let err = File::create(&said).expect("a file for its errors");
        // Not the machine's /dev/null, whose owner runtimes change.
        let input = File::open(ground.scratch.path("nodes/null")).expect("open a device");
        command.arg("--root").arg(&self.root).args(words);
        let child = command
            // Hooks may be given what the runtime has.
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", "/root")
            .current_dir(ground.scratch.dir())
            .stdin(input)
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("start a runtime");
        Begun { child, said }
    }

    /// Runs a command to its end.
    pub(crate) fn ask(&self, ground: &Ground, words: &[&str]) -> Answer {
        let out = ground.scratch.path("answer");
        let file = File::create(&out).expect("a file for its answer");
        let mut answer = self.begin(ground, words, file.into()).end();
        answer.out = std::fs::read_to_string(out).unwrap_or_default();
        answer
    }
}

/// A command under way.
pub(crate) struct Begun {
    pub(crate) child: Child,
    said: PathBuf,
}

impl Begun {
    /// Waits for its end, and makes one when that takes too long.
    pub(crate) fn end(mut self) -> Answer {
        let status = wait(&mut self.child);
        let err = std::fs::read(&self.said).unwrap_or_default();
        Answer {
            code: status.map(code),
            out: String::new(),
            err: String::from_utf8_lossy(&err).trim().to_owned(),
        }
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + LIMIT * machine::patience();
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("wait for a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn code(status: ExitStatus) -> i32 {
    let signalled = status.signal().map(|signal| 128 + signal);
    status.code().or(signalled).unwrap_or(-1)
}
