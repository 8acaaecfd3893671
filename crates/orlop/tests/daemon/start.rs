//! What an administrator sees of a daemon that cannot start: one clear line and
//! exit code 1.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use orlop_testkit::process::{self, Killed};
use orlop_testkit::{leaks, machine, skip_unless};
use tempfile::TempDir;

/// A user of this test's own: what others run as the same one would count for its limits.
fn nobody() -> u32 {
    1_000_000_000 + std::process::id()
}

const LIMIT: Duration = Duration::from_secs(20);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self, text: &str) -> PathBuf {
        let path = self.path("config.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn serve(&self) -> Command {
        self.serve_at("root", "state", "o.sock")
    }

    fn serve_at(&self, root: &str, state: &str, socket: &str) -> Command {
        let mut command = orlop();
        command
            .arg("serve")
            // The node's own plugins are no business of a test.
            .args([
                "--config".as_ref(),
                self.config("[nri]\nenable = false\n").as_os_str(),
            ]);
        for (flag, name) in [("--root", root), ("--state", state), ("--listen", socket)] {
            command.arg(flag).arg(self.path(name));
        }
        command
    }

    /// Like [`Place::serve`], by a command that becomes another; of the program's copy, if there
    /// is one.
    fn serve_beneath(&self, mut command: Command) -> Command {
        let serve = self.serve();
        let copy = self.path("orlop");
        let program = if copy.exists() {
            copy.as_os_str()
        } else {
            serve.get_program()
        };
        command.arg(program).args(serve.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        command
    }

    /// A daemon that serves.
    fn running(&self) -> Killed {
        let child = self.serve().stderr(Stdio::null()).spawn().unwrap();
        let running = Killed(child);
        orlop_testkit::block_until!(
            LIMIT,
            self.path("o.sock").exists(),
            "the daemon does not start"
        );
        running
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        leaks::let_go(&self.path("state"));
    }
}

fn orlop() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs what should fail at once; returns its exit code and what it said.
fn failure(command: &mut Command) -> (Option<i32>, String) {
    let mut child = Killed(command.spawn().unwrap());
    orlop_testkit::block_until!(
        LIMIT,
        child.0.try_wait().unwrap().is_some(),
        "{command:?} goes on"
    );
    let mut said = String::new();
    std::io::Read::read_to_string(child.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    (child.0.wait().unwrap().code(), said)
}

/// How it ends and what it says; none if it answers clients instead.
fn ended(command: &mut Command) -> Option<(Option<i32>, String)> {
    let socket = PathBuf::from(command.get_args().last().unwrap());
    let mut child = Killed(command.spawn().unwrap());
    let mut stderr = child.0.stderr.take().unwrap();
    let reading = thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            return Some((status.code(), reading.join().unwrap().unwrap()));
        }
        if UnixStream::connect(&socket).is_ok() {
            return None;
        }
        assert!(
            Instant::now() < deadline,
            "{command:?} neither answers nor ends"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn one_line(command: &mut Command, expected: &str) {
    let (code, said) = failure(command);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(expected),
        "{said:?} does not say {expected:?}"
    );
    assert_eq!(
        said.lines().filter(|line| !line.starts_with('{')).count(),
        1,
        "{said}"
    );
    assert!(
        said.lines().last().unwrap().starts_with("orlop: "),
        "{said}"
    );
}

#[test]
fn a_broken_configuration_names_file_line_and_key() {
    let place = Place::new();
    let config = place.config("root = \"/a\"\n[grpc]\nlisen = []\n");
    one_line(
        orlop().arg("serve").arg("--config").arg(&config),
        &format!(
            "{}:3: grpc.lisen: unknown key, did you mean `listen`?",
            config.display()
        ),
    );
    one_line(
        orlop().args(["serve", "--config", "/nonexistent/orlop.toml"]),
        "/nonexistent/orlop.toml: cannot read the file: No such file or directory",
    );
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let (code, said) = failure(orlop().args(["serve", "--listen", "tcp://127.0.0.1:1"]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is not a unix socket"), "{said}");
    let (code, _) = failure(orlop().arg("sreve"));
    assert_eq!(code, Some(2));
}

#[test]
fn a_root_in_use_names_the_daemon_that_uses_it() {
    let place = Place::new();
    let running = place.running();
    let expected = format!(
        "another daemon (pid {}) uses the root directory",
        running.0.id()
    );
    let mut second = place.serve_at("root", "state2", "p.sock");
    one_line(&mut second, &expected);
}

#[test]
fn a_socket_that_answers_is_left_to_its_owner() {
    let place = Place::new();
    let _running = place.running();
    let mut second = place.serve_at("root2", "state2", "o.sock");
    one_line(&mut second, "another process already listens on unix://");
    assert!(place.path("o.sock").exists());
}

#[test]
fn a_root_of_a_newer_version_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("root")).unwrap();
    fs::write(place.path("root/format"), "7\n").unwrap();
    one_line(&mut place.serve(), "has format 7 of a newer orlop");
}

#[test]
fn a_root_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let mut command = place.serve_at("file/root", "state", "o.sock");
    one_line(&mut command, "cannot create the root directory");
    // procfs takes no new files, whoever asks.
    let mut command = place.serve_at("/proc/sys", "state", "o.sock");
    one_line(&mut command, "cannot write to the root directory /proc/sys");
}

#[test]
fn a_group_that_does_not_exist_is_named() {
    let place = Place::new();
    let mut command = place.serve();
    place.config("[grpc]\ngroup = \"no-such-group\"\n");
    one_line(
        &mut command,
        "grpc.group: the group \"no-such-group\" is not in /etc/group",
    );
}

#[test]
fn check_names_every_mistake() {
    let place = Place::new();
    let config = place.config("a = 1\n[log]\nlevel = \"loud\"\n");
    let (code, said) = failure(orlop().args(["config", "check", "--config"]).arg(&config));
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("config.toml:1: a: unknown key"), "{said}");
    assert!(
        lines[1].contains("config.toml:3: log.level: \"loud\" is not one of"),
        "{said}"
    );
}

#[test]
fn check_warns_of_files_of_registries_that_cannot_be_read() {
    let place = Place::new();
    let conf = place.path("registries.conf");
    let config = place.config(&format!("[images]\nregistries_conf = {conf:?}\n"));
    // It may be for another machine.
    let check = || checked(&config);
    fs::write(&conf, "[[registry]]\nlocation = \"a.example\"\n").unwrap();
    assert!(!check().contains("registries.conf"), "{}", check());
    fs::write(&conf, "[[registry]]\nblokced = true\n").unwrap();
    assert!(check().contains("registries.conf:2: "), "{}", check());
}

#[test]
fn what_default_prints_is_a_valid_file() {
    let place = Place::new();
    let printed = process::run(orlop().args(["config", "default"]));
    let path = place.path("default.toml");
    fs::write(&path, printed).unwrap();
    checked(&path);
}

/// What is said of a configuration that is good.
fn checked(config: &Path) -> String {
    let mut check = orlop();
    check.args(["config", "check", "--config"]).arg(config);
    let said = process::ended(&mut check);
    assert!(said.ok, "{said:?}");
    said.err
}

#[test]
fn show_says_where_a_value_comes_from() {
    let place = Place::new();
    let config = place.config("root = \"/elsewhere\"\n");
    let shown = orlop()
        .args(["config", "show", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains(&format!(
        "root = \"/elsewhere\"  # {}:1",
        Path::new(&config).display()
    )));
    assert!(text.contains("state = \"/run/orlop\"\n"), "{text}");
}

#[test]
fn a_daemon_that_may_open_too_few_files_says_so() {
    let place = Place::new();
    let mut said = Vec::new();
    for limit in (4..200).step_by(3) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}"));
        match ended(&mut place.serve_beneath(command)) {
            Some(end) => said.push((limit, end)),
            // More does not hurt it.
            None => break,
        }
    }
    assert_each_is_told(&said, "Too many open files");
}

#[test]
fn a_daemon_that_may_start_too_few_threads_says_so() {
    skip_unless!(machine::is_root());
    let place = Place::new();
    // The limit does not hold for root, and the program may be where nobody else gets at it.
    fs::copy(env!("CARGO_BIN_EXE_orlop"), place.path("orlop")).unwrap();
    let nobody = nobody();
    chown(place.0.path(), Some(nobody), Some(nobody)).unwrap();
    let mut said = Vec::new();
    for limit in 1..6 {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={nobody}"));
        command.args(["--clear-groups", "prlimit"]);
        command.arg(format!("--nproc={limit}"));
        let end = ended(&mut place.serve_beneath(command));
        said.push((limit, end.expect("a user cannot serve")));
    }
    assert_each_is_told(&said, "Resource temporarily unavailable");
}

/// Each says in one line what it lacks, and one of them this.
fn assert_each_is_told(said: &[(u32, (Option<i32>, String))], lack: &str) {
    let mut is_told = false;
    for (limit, (code, said)) in said {
        println!("{limit}: {code:?}: {said}");
        // The loader's own, before the program begins.
        if said.contains("error while loading shared libraries") {
            continue;
        }
        assert_eq!(*code, Some(1), "{limit}: {said}");
        let lines = said.lines().filter(|line| !line.starts_with('{'));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1, "{limit}: {said}");
        assert!(lines[0].starts_with("orlop: "), "{limit}: {said}");
        is_told |= lines[0].contains(lack);
    }
    assert!(is_told, "none says {lack:?}: {said:?}");
}

#[test]
fn a_configuration_of_an_earlier_version_is_brought_up_to_date() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("old.toml");
    let drop_in = place.path().join("old.toml.d/10-more.toml");
    fs::create_dir(place.path().join("old.toml.d")).unwrap();
    let before = "# ours\n[containers]\nstop_timeout = \"1m\" # long\npids_limit = 100\n";
    fs::write(&file, before).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&drop_in, "containers = { selinux = true }\n").unwrap();
    let config = |words: &[&str]| {
        let mut command = orlop();
        command.arg("config").args(words).arg("--config").arg(&file);
        command.output().unwrap()
    };
    let said = |output: &std::process::Output| {
        let out = String::from_utf8_lossy(&output.stdout);
        format!("{out}{}", String::from_utf8_lossy(&output.stderr))
    };
    let checked = said(&config(&["check"]));
    orlop_testkit::assert_contains!(checked, "old.toml:3: containers.stop_timeout: was removed");
    assert!(checked.contains("`orlop config migrate`"), "{checked}");

    let told = config(&["migrate"]);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(
        said(&told).contains("old.toml:3: commented out containers.stop_timeout"),
        "{told:?}"
    );
    assert!(
        said(&told).contains("10-more.toml:1: containers.selinux shares its line"),
        "{told:?}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), before);

    fs::write(&drop_in, "containers.selinux = true\n").unwrap();
    let written = config(&["migrate", "--write"]);
    assert!(written.status.success(), "{written:?}");
    let now = fs::read_to_string(&file).unwrap();
    assert_eq!(now, before.replace("stop_timeout", "# stop_timeout"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        fs::read_to_string(place.path().join("old.toml.before")).unwrap(),
        before
    );
    assert!(config(&["check"]).status.success());
    assert!(said(&config(&["migrate"])).contains("old.toml: up to date"));

    // What was kept is not written over.
    fs::write(&file, "[containers]\nlog_buffer = 1\n").unwrap();
    let refused = config(&["migrate", "--write"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        said(&refused).contains("old.toml.before; remove that file first"),
        "{refused:?}"
    );
    assert!(fs::read_to_string(&file).unwrap().contains("\nlog_buffer"));
}
