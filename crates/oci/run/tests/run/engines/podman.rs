//! Debian's podman, which has no daemon: conmon calls the runtime.

use std::path::PathBuf;
use std::process::{Command, Output};

use orlop_testkit::{Scratch, machine, skip_unless};

use crate::engines::{COUNTING, IMAGE, MEMORY, OPTIONS, archive, printed, runtime, wait_until};

/// Podman on directories of the test's own.
struct Podman {
    program: PathBuf,
    scratch: Scratch,
}

fn can_run() -> Result<(), String> {
    machine::is_root()?;
    machine::has_program("podman")?;
    machine::has_program("conmon")?;
    machine::has_program("busybox")
}

impl Podman {
    fn new() -> Self {
        let program = machine::program("podman").unwrap_or_else(|e| panic!("{e}"));
        let podman = Self {
            program,
            scratch: Scratch::new(),
        };
        let image = podman.scratch.path("image.tar");
        std::fs::write(&image, archive()).expect("write an archive");
        podman.ask(&["load", "--quiet", "--input", &image.to_string_lossy()]);
        podman
    }

    fn command(&self, words: &[&str]) -> Command {
        let run = self.scratch.run();
        let mut command = Command::new(&self.program);
        command
            .arg("--root")
            .arg(self.scratch.path("containers"))
            .arg("--runroot")
            .arg(run.join("r"))
            .arg("--tmpdir")
            .arg(run.join("t"))
            .arg("--runtime")
            .arg(runtime())
            .args(["--cgroup-manager", "cgroupfs", "--events-backend", "none"])
            .args(words);
        command
    }

    fn try_ask(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("run podman")
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut command = self.command(words);
        let output = command.output().expect("run podman");
        printed(output, &command)
    }

    fn run(&self, options: &[&str], command: &[&str]) -> String {
        self.ask(&Self::words(options, command))
    }

    fn words<'a>(options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
        // Its own limits are higher than those of a build machine, which may not raise them.
        let mut words = vec!["run", "--network=none"];
        words.extend(["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]);
        words.extend(options);
        words.push(IMAGE);
        words.extend(command);
        words
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.try_ask(&["rm", "--all", "--force", "--time", "0"]);
        // Its own storage is mounted for as long as it is used.
        self.try_ask(&["umount", "--all"]);
    }
}

#[test]
fn podman_runs_execs_updates_stops_and_removes() {
    skip_unless!(can_run());
    let podman = Podman::new();
    assert_eq!(podman.run(&["--rm"], &["echo", "hello"]), "hello");

    podman.run(OPTIONS, &["sleep", "1000"]);
    let exec = |words: &str| podman.ask(&["exec", "one", "sh", "-c", words]);
    assert_eq!(
        exec("id -u; hostname; pwd; echo $COLOUR"),
        "1000\nship\n/tmp\nblue"
    );
    assert_eq!(exec("touch /no 2> /dev/null || echo sealed"), "sealed");
    assert_eq!(exec("grep '^Seccomp:' /proc/self/status"), "Seccomp:\t2");
    let root = ["exec", "--user=0", "--env=COLOUR=red", "one"];
    let command = ["sh", "-c", "id -u; echo $COLOUR"];
    assert_eq!(podman.ask(&[&root[..], &command].concat()), "0\nred");
    let code = |words: &[&str]| podman.try_ask(words).status.code();
    assert_eq!(code(&["exec", "one", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["exec", "one", "/nothing"]), Some(127));
    assert_eq!(code(&Podman::words(&["--rm"], &["/nothing"])), Some(127));
    assert_eq!(code(&Podman::words(&["--rm"], &["/etc/passwd"])), Some(126));
    assert_eq!(
        code(&Podman::words(&["--rm"], &["sh", "-c", "exit 3"])),
        Some(3)
    );

    let update = podman.try_ask(&["update", "--memory", "128m", "one"]);
    assert!(update.status.success(), "{update:?}");
    assert_eq!(exec(MEMORY), (128 << 20).to_string());

    podman.ask(&["pause", "one"]);
    let status = ["inspect", "--format", "{{.State.Status}}", "one"];
    assert_eq!(podman.ask(&status), "paused");
    podman.ask(&["unpause", "one"]);
    assert_eq!(exec("echo awake"), "awake");
    podman.ask(&["stop", "--time", "0", "one"]);
    assert_eq!(podman.ask(&status), "exited");
    podman.ask(&["rm", "one"]);
    assert_eq!(podman.ask(&["ps", "--all", "--quiet"]), "");
}

#[test]
fn podman_writes_a_container_out_and_has_it_go_on() {
    skip_unless!(can_run());
    skip_unless!(machine::criu_works());
    let podman = Podman::new();
    podman.run(&["--detach", "--name", "one"], &["sh", "-c", COUNTING]);
    let count = || -> u64 {
        let said = podman.try_ask(&["exec", "one", "cat", "/count"]);
        String::from_utf8_lossy(&said.stdout)
            .trim()
            .parse()
            .unwrap_or(0)
    };
    wait_until("it counts", || count() > 10);
    let out = podman.try_ask(&["container", "checkpoint", "one"]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(
        podman.ask(&["inspect", "--format", "{{.State.Status}}", "one"]),
        "exited"
    );
    podman.ask(&["container", "restore", "one"]);
    let then = count();
    assert!(then > 10, "it began anew: {then}");
    wait_until("it goes on", || count() > then);
}
