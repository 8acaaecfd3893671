//! Debian's containerd with its shim of runc, asked by `ctr`.

use std::process::{Command, Output};
use std::time::Duration;

use orlop_testkit::process::Process;
use orlop_testkit::{Scratch, machine, skip_unless};

use crate::engines::{COUNTING, IMAGE, archive, printed, runtime, wait_until};

/// A containerd on directories of the test's own.
struct Containerd {
    // Ends before its directories go.
    daemon: Process,
    scratch: Scratch,
    namespace: String,
}

fn can_run() -> Result<(), String> {
    machine::is_root()?;
    for program in ["containerd", "ctr", "containerd-shim-runc-v2", "busybox"] {
        machine::has_program(program)?;
    }
    Ok(())
}

impl Containerd {
    fn start() -> Self {
        let scratch = Scratch::new();
        let (root, run) = (scratch.subdir("root"), scratch.run().to_owned());
        let (root, state) = (root.display(), run.join("s"));
        let config = format!(
            "version = 2\nroot = \"{root}\"\nstate = \"{}\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
             [grpc]\naddress = \"{}\"\n[ttrpc]\naddress = \"{}\"\n\
             [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{}\"\n",
            state.display(),
            run.join("c.sock").display(),
            run.join("c.ttrpc").display(),
            scratch.subdir("opt").display(),
        );
        let file = scratch.path("containerd.toml");
        std::fs::write(&file, config).expect("write the configuration");
        let program = machine::program("containerd").unwrap_or_else(|e| panic!("{e}"));
        let mut command = Command::new(program);
        command.arg("--config").arg(file);
        let log = scratch.path("containerd.log");
        let daemon = Process::spawn("containerd", &mut command, &log);
        let namespace = scratch.id().to_owned();
        let mut containerd = Self {
            daemon,
            scratch,
            namespace,
        };
        let (words, address) = (["version"], containerd.address());
        let ready = || {
            asked(&address, "", &words)
                .output()
                .is_ok_and(|out| out.status.success())
        };
        containerd
            .daemon
            .wait_until(Duration::from_mins(1), "answer", ready);
        let image = containerd.scratch.path("image.tar");
        std::fs::write(&image, archive()).expect("write an archive");
        containerd.ask(&["images", "import", &image.to_string_lossy()]);
        containerd
    }

    fn address(&self) -> String {
        self.scratch
            .run()
            .join("c.sock")
            .to_string_lossy()
            .into_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        asked(&self.address(), &self.namespace, words)
    }

    fn try_ask(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("run ctr")
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut command = self.command(words);
        let output = command.output().expect("run ctr");
        printed(output, &command)
    }

    fn run(&self, options: &[&str], id: &str, command: &[&str]) -> Output {
        let runtime = runtime();
        let mut words = vec!["run", "--runc-binary", &runtime];
        words.extend(options);
        words.extend([IMAGE, id]);
        words.extend(command);
        self.try_ask(&words)
    }

    /// `RUNNING`, `PAUSED`, `STOPPED`; nothing where there is none.
    fn status(&self, id: &str) -> String {
        let tasks = self.ask(&["tasks", "list"]);
        let line = tasks
            .lines()
            .find(|line| line.split_whitespace().next() == Some(id));
        let word = line.and_then(|line| line.split_whitespace().last());
        word.unwrap_or_default().to_owned()
    }
}

fn asked(address: &str, namespace: &str, words: &[&str]) -> Command {
    let program = machine::program("ctr").unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(program);
    command.args(["--address", address]);
    if !namespace.is_empty() {
        command.args(["--namespace", namespace]);
    }
    command.args(words);
    command
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let names = self.try_ask(&["containers", "list", "--quiet"]);
        let names = String::from_utf8_lossy(&names.stdout).into_owned();
        for name in names.split_whitespace() {
            self.try_ask(&["tasks", "delete", "--force", name]);
            self.try_ask(&["containers", "delete", name]);
        }
        // Above the groups of its containers is one of the namespace, which nobody takes away.
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
        for hierarchy in hierarchies.flatten() {
            let _ = std::fs::remove_dir(hierarchy.path().join(&self.namespace));
        }
        let _ = std::fs::remove_dir(format!("/sys/fs/cgroup/{}", self.namespace));
    }
}

#[test]
fn containerd_runs_execs_pauses_kills_and_deletes() {
    skip_unless!(can_run());
    let containerd = Containerd::start();
    let output = containerd.run(&["--rm"], "once", &["echo", "hello"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "hello");
    assert_eq!(
        containerd
            .run(&["--rm"], "ends", &["sh", "-c", "exit 3"])
            .status
            .code(),
        Some(3)
    );
    let refused = containerd.run(&["--rm"], "refused", &["/nothing"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("no such file"),
        "{said}"
    );

    let limit = (64 << 20).to_string();
    let options = ["--detach", "--memory-limit", &limit, "--env", "COLOUR=blue"];
    let output = containerd.run(&options, "one", &["sleep", "1000"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(containerd.status("one"), "RUNNING");
    let exec = |words: &str| {
        let command = ["tasks", "exec", "--exec-id", "e1", "one", "sh", "-c", words];
        containerd.ask(&command)
    };
    assert_eq!(exec("id -u; echo $COLOUR"), "0\nblue");
    let failing = [
        "tasks",
        "exec",
        "--exec-id",
        "e2",
        "one",
        "sh",
        "-c",
        "exit 7",
    ];
    assert_eq!(containerd.try_ask(&failing).status.code(), Some(7));
    assert!(
        containerd
            .ask(&["tasks", "metrics", "one"])
            .contains("memory")
    );
    assert!(containerd.ask(&["tasks", "ps", "one"]).lines().count() > 1);

    containerd.ask(&["tasks", "pause", "one"]);
    assert_eq!(containerd.status("one"), "PAUSED");
    containerd.ask(&["tasks", "resume", "one"]);
    assert_eq!(exec("echo awake"), "awake");
    containerd.ask(&["tasks", "kill", "--signal", "KILL", "one"]);
    wait_until("it has ended", || containerd.status("one") == "STOPPED");
    containerd.ask(&["tasks", "delete", "one"]);
    containerd.ask(&["containers", "delete", "one"]);
    assert_eq!(containerd.ask(&["containers", "list", "--quiet"]), "");
}

#[test]
fn containerd_writes_a_container_out() {
    skip_unless!(can_run());
    skip_unless!(machine::criu_works());
    let containerd = Containerd::start();
    let output = containerd.run(&["--detach"], "one", &["sh", "-c", COUNTING]);
    assert!(output.status.success(), "{output:?}");
    let count = |exec: &str| -> u64 {
        let words = ["tasks", "exec", "--exec-id", exec, "one", "cat", "/count"];
        let said = containerd.try_ask(&words);
        String::from_utf8_lossy(&said.stdout)
            .trim()
            .parse()
            .unwrap_or(0)
    };
    wait_until("it counts", || count("a") > 10);
    let image = containerd.scratch.subdir("image");
    let image = image.to_string_lossy();
    containerd.ask(&[
        "tasks",
        "checkpoint",
        "--exit",
        "--image-path",
        &image,
        "one",
    ]);
    wait_until("it has ended", || containerd.status("one") == "STOPPED");
    assert!(
        std::fs::read_dir(&*image).unwrap().count() > 5,
        "nothing was written out"
    );
    containerd.try_ask(&["tasks", "delete", "one"]);
}
