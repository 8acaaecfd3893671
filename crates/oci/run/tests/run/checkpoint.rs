//! Containers are written out by CRIU and go on, by the command line.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try it on.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::leaks;
use orlop_testkit::machine::{criu_works, patience};
use orlop_testkit::process::Killed;
use orlop_testkit::{skip, skip_unless};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{Rig, Said, also, ended, volume, works};

/// Counts, into a file and to its output; ends with 7 when it is told.
const COUNTING: &str = "i=0; while [ ! -e /go ]; do i=$((i+1)); echo $i > /n.new; mv /n.new /n; \
    echo $i; sleep 0.02; done; exit 7";

/// Begins a test: skips it where CRIU does not work, else gives a rig.
macro_rules! criu_rig {
    () => {{
        skip_unless!(works());
        skip_unless!(criu_works());
        rig()
    }};
}

fn rig() -> Rig {
    let rig = Rig::new();
    symlink("busybox", rig.root.join("bin/mv")).unwrap();
    rig
}

/// Until something is so, or for too long.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    orlop_testkit::block_until!(Duration::from_secs(20) * patience(), so(), "{what}");
}

fn counted(rig: &Rig) -> u64 {
    let text = fs::read_to_string(rig.root.join("n")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn counts_beyond(rig: &Rig, number: u64) {
    until("it stands still", || counted(rig) > number);
}

/// Runs a command whose container has pipes as its standard streams, as engines give them: of those
/// CRIU can make others. What the command itself says is in the log.
fn with_pipes(command: &mut Command) -> (Said, PipeReader) {
    let (output, theirs) = std::io::pipe().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let name = command.get_program().to_owned();
    let args: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
    let mut child = Command::new(name)
        .args(&args[..2])
        .arg("--log")
        .arg(log.path())
        .args(&args[2..])
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(1) * patience();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                panic!("{args:?} did not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = Said {
        ok: status.success(),
        code: status.code(),
        out: String::new(),
        err: fs::read_to_string(log.path()).unwrap(),
    };
    (said, output)
}

/// A container that runs, with pipes.
fn running(rig: &Rig, config: &Value) -> (String, PathBuf, PipeReader) {
    let (id, bundle) = rig.bundle(config);
    let mut create = rig.command();
    create.args(["create", "--bundle"]).arg(&bundle).arg(&id);
    let (said, output) = with_pipes(&mut create);
    assert!(said.ok, "{said:?}");
    let said = ended(rig.command().args(["start", &id]));
    assert!(said.ok, "{said:?}");
    counts_beyond(rig, 3);
    (id, bundle, output)
}

fn checkpoint(rig: &Rig, images: &Path, flags: &[&str], id: &str) -> Said {
    let mut command = rig.command();
    command.arg("checkpoint").arg("--image-path").arg(images);
    ended(command.args(flags).arg(id))
}

fn restoring(rig: &Rig, images: &Path, bundle: &Path, flags: &[&str], id: &str) -> Command {
    let mut command = rig.command();
    command.arg("restore").arg("--image-path").arg(images);
    command.arg("--bundle").arg(bundle).args(flags).arg(id);
    command
}

fn state(rig: &Rig, id: &str) -> Result<Value, Said> {
    let said = ended(rig.command().args(["state", id]));
    if said.ok {
        Ok(serde_json::from_str(&said.out).unwrap())
    } else {
        Err(said)
    }
}

/// Whether anything is left that belongs to a container.
fn is_gone(rig: &Rig, id: &str) -> bool {
    let dir = rig.outside("state").join(id);
    let cgroups = ["", "pids", "freezer", "unified"];
    let cgroup = |of: &str| Path::new("/sys/fs/cgroup").join(of).join(id).exists();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    !dir.exists() && !cgroups.iter().any(|of| cgroup(of)) && !mounts.contains(id)
}

#[test]
fn a_container_goes_on_as_another_where_it_was() {
    let rig = criu_rig!();
    let data = rig.outside("data");
    fs::write(data.join("said"), "by the host").unwrap();
    symlink("/run", rig.root.join("var")).unwrap();
    let mut config = rig.config(&["sh", "-c", COUNTING]);
    config["hostname"] = "first".into();
    // Where a link leads, read-only, and by itself, as engines ask for volumes.
    let mut secrets = volume(&data, "/var/secrets");
    secrets["options"] = json!(["rbind", "ro", "rprivate"]);
    also(&mut config, secrets);
    let (id, _, _output) = running(&rig, &config);
    let images = rig.outside("images");

    // Written out and let run on.
    let first = rig.outside("first");
    let said = checkpoint(&rig, &first, &["--leave-running"], &id);
    assert!(said.ok, "{said:?}");
    assert_eq!(state(&rig, &id).unwrap()["status"], "running");
    counts_beyond(&rig, counted(&rig));
    // Written out and ended.
    let ignore = ["--manage-cgroups-mode", "ignore"];
    let said = checkpoint(&rig, &images, &ignore, &id);
    assert!(said.ok, "{said:?}");
    let written_at = counted(&rig);
    assert!(is_gone(&rig, &id));
    assert!(state(&rig, &id).unwrap_err().err.contains("does not exist"));

    // Under another name, with another cgroup and other pipes.
    let (second, bundle) = rig.bundle(&config);
    let pid_file = bundle.join("pid");
    let mut flags = vec!["--detach", "--pid-file", pid_file.to_str().unwrap()];
    flags.extend(ignore);
    let (said, mut output) = with_pipes(&mut restoring(&rig, &images, &bundle, &flags, &second));
    assert!(said.ok, "{said:?}");
    counts_beyond(&rig, written_at + 3);
    let known = state(&rig, &second).unwrap();
    assert_eq!(known["status"], "running");
    let pid = fs::read_to_string(&pid_file).unwrap();
    assert_eq!(known["pid"].to_string(), pid);
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(cgroups.contains(&second), "{cgroups}");
    assert!(!cgroups.contains(&format!("{id}\n")), "{cgroups}");
    // What it says comes by the new pipe, and goes on where the old one ended.
    let mut text = [0; 64];
    let length = output.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..length]);
    let number: u64 = text.lines().next().unwrap().parse().unwrap();
    assert!(number.abs_diff(written_at) <= 2, "{number}, {written_at}");

    // All is there again as it was, for those that join it too.
    let within = |command: &[&str]| ended(rig.command().args(["exec", &second]).args(command));
    let said = within(&["cat", "/proc/sys/kernel/hostname", "/var/secrets/said"]);
    assert_eq!(said.out, "first\nby the host", "{said:?}");
    let said = within(&["mkdir", "/run/secrets/more"]);
    assert!(said.err.contains("Read-only"), "{said:?}");
    let said = within(&["cat", "/proc/keys"]);
    assert!(said.ok && said.out.is_empty(), "{said:?}");
    let said = within(&["ls", "/sys/firmware"]);
    assert!(said.ok && said.out.is_empty(), "{said:?}");
    // Nothing of the restoring is seen by anybody.
    for mounts in ["self", "1", &pid] {
        let mounts = fs::read_to_string(format!("/proc/{mounts}/mountinfo")).unwrap();
        assert!(!mounts.contains("criu"), "{mounts}");
    }
    let left = fs::read_dir(rig.outside("state").join(&second)).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "criu-root"), "{left:?}");
    // It can be written out again.
    let said = checkpoint(&rig, &rig.outside("again"), &ignore, &second);
    assert!(said.ok, "{said:?}");
    assert!(is_gone(&rig, &second));
}

#[test]
fn what_memory_was_written_before_need_not_be_written_again() {
    let rig = criu_rig!();
    let (id, bundle, _output) = running(&rig, &rig.config(&["sh", "-c", COUNTING]));
    let images = rig.outside("images");
    let said = checkpoint(&rig, &images.join("before"), &["--pre-dump"], &id);
    if said.err.contains("MemTrack") {
        skip!("this kernel does not say which memory was written (CONFIG_MEM_SOFT_DIRTY)");
    }
    assert!(said.ok, "{said:?}");
    assert_eq!(state(&rig, &id).unwrap()["status"], "running");
    assert!(!images.join("before/core-1.img").exists(), "memory alone");
    counts_beyond(&rig, counted(&rig));
    let after = images.join("after");
    let said = checkpoint(&rig, &after, &["--parent-path", "../before"], &id);
    assert!(said.ok, "{said:?}");
    let link = fs::read_link(after.join("parent")).unwrap();
    assert_eq!(link, Path::new("../before"));
    let written_at = counted(&rig);
    let (said, _output) = with_pipes(&mut restoring(&rig, &after, &bundle, &["-d"], &id));
    assert!(said.ok, "{said:?}");
    counts_beyond(&rig, written_at + 3);
}

/// The container goes on elsewhere before its memory is there, which is fetched of the process that it was.
#[test]
fn memory_is_fetched_when_it_is_touched() {
    skip_unless!(works());
    skip_unless!(criu_works());
    skip_unless!(lazy_pages_work());
    let rig = rig();
    // A megabyte that is looked through again and again.
    let script = "x=$(head -c 1000000 /dev/zero | tr '\\0' x)y; i=0; while [ ! -e /go ]; do \
        case $x in *y) i=$((i+1)); echo $i > /n.new; mv /n.new /n;; esac; sleep 0.02; done";
    for applet in ["head", "tr"] {
        symlink("busybox", rig.root.join("bin").join(applet)).unwrap();
    }
    let config = rig.config(&["sh", "-c", script]);
    let (id, _, _output) = running(&rig, &config);
    let images = rig.outside("images");
    let port = free_port();
    let ignore = ["--manage-cgroups-mode", "ignore"];

    let (mut ready, status) = std::io::pipe().unwrap();
    let mut write = rig.command();
    write.arg("checkpoint").arg("--image-path").arg(&images);
    write
        .args(ignore)
        .args(["--lazy-pages", "--status-fd", "1"]);
    write.args(["--page-server", &format!("127.0.0.1:{port}"), &id]);
    let mut write = Ends::of(write.stdout(status));
    rustix::io::ioctl_fionbio(&ready, true).unwrap();
    let mut byte = [1];
    until("nothing can be fetched", || {
        ready.read(&mut byte).is_ok_and(|count| count == 1)
    });
    assert_eq!(byte, [0]);
    // It stands still, and is not gone.
    let written_at = counted(&rig);
    assert_eq!(state(&rig, &id).unwrap()["status"], "running");
    assert!(images.join("inventory.img").exists());
    let length = length_of_pages(&images);
    assert!(length < 1_000_000, "all of it was written: {length}");

    let mut fetch = Command::new("criu");
    fetch.args(["lazy-pages", "--page-server", "--address", "127.0.0.1"]);
    fetch.args(["--port", &port, "--images-dir"]).arg(&images);
    let mut fetch = Ends::of(&mut fetch);
    until("nobody fetches", || {
        images.join("lazy-pages.socket").exists()
    });
    let (second, bundle) = rig.bundle(&config);
    let mut flags = vec!["--detach", "--lazy-pages"];
    flags.extend(ignore);
    let (said, _output) = with_pipes(&mut restoring(&rig, &images, &bundle, &flags, &second));
    assert!(said.ok, "{said:?}");
    counts_beyond(&rig, written_at + 3);
    write.well();
    fetch.well();
    assert!(is_gone(&rig, &id));
    // All that it had is there now.
    counts_beyond(&rig, counted(&rig));
}

/// How many bytes of memory were written into a directory.
fn length_of_pages(images: &Path) -> u64 {
    let listed = fs::read_dir(images).unwrap().map(Result::unwrap);
    let pages = listed.filter(|it| it.file_name().to_string_lossy().starts_with("pages-"));
    pages.map(|it| it.metadata().unwrap().len()).sum()
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// Memory is sent to another machine, and the rest of what was written out brought there.
#[test]
fn memory_is_written_where_a_server_of_pages_is() {
    let rig = criu_rig!();
    let (id, bundle, _output) = running(&rig, &rig.config(&["sh", "-c", COUNTING]));
    let (images, there) = (rig.outside("images"), rig.outside("there"));
    let port = free_port();
    let mut serve = Command::new("criu");
    serve.args(["page-server", "--address", "127.0.0.1", "--port", &port]);
    serve
        .args(["--log-file", "server.log", "--images-dir"])
        .arg(&there);
    let mut serve = Ends::of(&mut serve);
    let listens = format!(":{:04X} 00000000:0000 0A", port.parse::<u16>().unwrap());
    until("nobody serves", || {
        fs::read_to_string("/proc/net/tcp")
            .unwrap()
            .contains(&listens)
    });
    let server = format!("127.0.0.1:{port}");
    let said = checkpoint(&rig, &images, &["--page-server", &server], &id);
    assert!(said.ok, "{said:?}");
    serve.well();
    let written_at = counted(&rig);
    assert_eq!(length_of_pages(&images), 0);
    assert!(length_of_pages(&there) > 0);
    for image in fs::read_dir(&images).unwrap().map(Result::unwrap) {
        fs::copy(image.path(), there.join(image.file_name())).unwrap();
    }
    let (said, _output) = with_pipes(&mut restoring(&rig, &there, &bundle, &["-d"], &id));
    assert!(said.ok, "{said:?}");
    counts_beyond(&rig, written_at + 3);
}

fn lazy_pages_work() -> Result<(), String> {
    /// `CAP_SYS_RESOURCE` of `capabilities(7)`.
    const RESOURCE: u64 = 24;
    let rights = orlop_testkit::process::status(std::process::id(), "CapEff:");
    let rights = u64::from_str_radix(rights["CapEff:".len()..].trim(), 16);
    if rights.unwrap() & 1 << RESOURCE == 0 {
        return Err("CRIU serves pages by a pipe that only CAP_SYS_RESOURCE can make".to_owned());
    }
    let mut check = Command::new("criu");
    check.args(["check", "--feature", "uffd-noncoop"]);
    let said = ended(&mut check);
    let reason = || format!("memory cannot be fetched lazily here: {}", said.err.trim());
    said.ok.then_some(()).ok_or_else(reason)
}

/// A process that ends with the test at the latest.
struct Ends(Killed);

impl Ends {
    fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Self(Killed(command.spawn().unwrap()))
    }

    /// Waits until it ends as it should.
    fn well(&mut self) {
        let ended = || self.0.0.try_wait().unwrap().is_some();
        until("it does not end", ended);
        assert_eq!(self.0.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn whoever_restores_in_the_foreground_hears_of_the_end() {
    let rig = criu_rig!();
    let told = rig.outside("told");
    let mut config = rig.config(&["sh", "-c", COUNTING]);
    let (id, bundle, _output) = running(&rig, &config);
    let images = rig.outside("images");
    let said = checkpoint(&rig, &images, &[], &id);
    assert!(said.ok, "{said:?}");
    let written_at = counted(&rig);
    let hook = format!("cat > {}/state", told.display());
    config["hooks"] = json!({
        "createRuntime": [{ "path": "/bin/sh", "args": ["sh", "-c", hook] }],
    });
    config["linux"]["cgroupsPath"] = format!("/{id}").into();
    fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    let (_output, theirs) = std::io::pipe().unwrap();
    let mut restore = restoring(&rig, &images, &bundle, &[], &id);
    restore
        .stdin(Stdio::null())
        .stderr(theirs.try_clone().unwrap());
    let mut child = restore.stdout(theirs).spawn().unwrap();
    counts_beyond(&rig, written_at + 3);
    // Its hooks have run, and were told of its process.
    let state: Value = serde_json::from_slice(&fs::read(told.join("state")).unwrap()).unwrap();
    assert_eq!(state["id"], id.as_str());
    assert!(state["pid"].as_u64().unwrap() > 1, "{state}");
    fs::write(rig.root.join("go"), "").unwrap();
    until("it does not end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(is_gone(&rig, &id));
}

#[test]
fn a_terminal_goes_on_elsewhere() {
    let rig = criu_rig!();
    // A word from the terminal is one more.
    let script =
        "i=0; while read word; do i=$((i+1)); echo $i > /n.new; mv /n.new /n; echo $word-$i; done";
    let mut config = rig.config(&["sh", "-c", script]);
    config["process"]["terminal"] = true.into();
    let (id, bundle) = rig.bundle(&config);
    let (socket, held) = terminal_from(&bundle, "one");
    let mut create = rig.command();
    create.args(["create", "--bundle"]).arg(&bundle);
    let said = ended(create.arg("--console-socket").arg(socket).arg(&id));
    assert!(said.ok, "{said:?}");
    let mut terminal = held.join().unwrap();
    let said = ended(rig.command().args(["start", &id]));
    assert!(said.ok, "{said:?}");
    terminal.write_all(b"word\n").unwrap();
    hears(&mut terminal, "word-1");
    let images = rig.outside("images");
    let said = checkpoint(&rig, &images, &[], &id);
    assert!(said.ok, "{said:?}");
    drop(terminal);

    let (socket, held) = terminal_from(&bundle, "two");
    let socket = ["-d", "--console-socket", socket.to_str().unwrap()];
    let said = ended(&mut restoring(&rig, &images, &bundle, &socket, &id));
    assert!(said.ok, "{said:?}");
    let mut terminal = held.join().unwrap();
    terminal.write_all(b"again\n").unwrap();
    hears(&mut terminal, "again-2");
    assert_eq!(counted(&rig), 2);
}

/// A socket by which a terminal will come.
fn terminal_from(bundle: &Path, name: &str) -> (PathBuf, std::thread::JoinHandle<File>) {
    let path = bundle.join(name);
    let listener = UnixListener::bind(&path).unwrap();
    let held = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        recvmsg(&stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let fd: Option<OwnedFd> = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        File::from(fd.unwrap())
    });
    (path, held)
}

fn hears(terminal: &mut File, word: &str) {
    rustix::io::ioctl_fionbio(&*terminal, true).unwrap();
    let mut heard = String::new();
    until(&format!("no {word}"), || {
        let mut bytes = [0; 256];
        if let Ok(count) = terminal.read(&mut bytes) {
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        heard.contains(word)
    });
}

#[test]
fn of_what_cannot_be_restored_nothing_is_left() {
    let rig = criu_rig!();
    let (id, bundle, _output) = running(&rig, &rig.config(&["sh", "-c", COUNTING]));
    let images = rig.outside("images");
    let said = checkpoint(&rig, &images, &[], &id);
    assert!(said.ok, "{said:?}");
    fs::remove_file(images.join("inventory.img")).unwrap();
    let work = rig.outside("work");
    let flags = ["-d", "--work-path", work.to_str().unwrap()];
    let said = ended(&mut restoring(&rig, &images, &bundle, &flags, &id));
    assert!(!said.ok, "{said:?}");
    assert!(said.err.contains("criu failed: type RESTORE"), "{said:?}");
    // Where it is told in full.
    let log = work.join("restore.log");
    assert!(said.err.contains(log.to_str().unwrap()), "{said:?}");
    assert!(fs::read_to_string(log).unwrap().contains("Error"));
    assert!(is_gone(&rig, &id));
}

/// What CRIU has begun would wait for ever for what it is told next, or would be waited for.
#[test]
fn nothing_is_left_of_a_restore_that_is_killed() {
    let rig = criu_rig!();
    let config = rig.config(&["sh", "-c", COUNTING]);
    let (id, _, _output) = running(&rig, &config);
    let images = rig.outside("images");
    let flags = ["--manage-cgroups-mode", "ignore"];
    let said = checkpoint(&rig, &images, &flags, &id);
    assert!(said.ok, "{said:?}");
    let start = || {
        let (id, bundle) = rig.bundle(&config);
        let (output, theirs) = std::io::pipe().unwrap();
        let flags = ["-d", "--manage-cgroups-mode", "ignore"];
        let mut restore = restoring(&rig, &images, &bundle, &flags, &id);
        let restore = restore
            .stdin(Stdio::null())
            .stderr(theirs.try_clone().unwrap());
        (id, restore.stdout(theirs).spawn().unwrap(), output)
    };
    let delete = |id: &str| {
        let said = ended(rig.command().args(["delete", "--force", id]));
        let left = leaks::find(id, &[]);
        assert!(said.ok && left.is_empty(), "{said:?} {left:?}");
    };
    let begun = Instant::now();
    let (id, mut restore, _output) = start();
    assert!(restore.wait().unwrap().success());
    let whole = begun.elapsed();
    delete(&id);
    // At any moment.
    for kill in 0..12 {
        let (id, mut restore, _output) = start();
        std::thread::sleep(whole * kill / 12);
        restore.kill().unwrap();
        restore.wait().unwrap();
        if state(&rig, &id).is_ok_and(|state| state["status"] == "running") {
            // All was done that is done by what was killed.
            delete(&id);
            continue;
        }
        until("a process of the restore lives on", || {
            leaks::processes(&id, &[]).is_empty()
        });
        delete(&id);
    }
    // A CRIU that holds what it has restored would be waited for in vain.
    let mut held = 0;
    for _ in 0..20 {
        let (id, mut restore, _output) = start();
        let file = rig.outside("state").join(&id).join("state.json");
        let holder = || {
            let text = fs::read(&file).unwrap_or_default();
            let state: Value = serde_json::from_slice(&text).unwrap_or_default();
            let pid = state["pid"].as_u64().filter(|pid| *pid > 0)?;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let tracer = status
                .split("TracerPid:")
                .nth(1)?
                .split_whitespace()
                .next()?;
            Pid::from_raw(tracer.parse().ok()?)
        };
        while restore.try_wait().unwrap().is_none() {
            if let Some(criu) = holder() {
                held += u32::from(kill_process(criu, Signal::STOP).is_ok());
                break;
            }
        }
        restore.kill().unwrap();
        restore.wait().unwrap();
        delete(&id);
    }
    assert!(held > 0, "CRIU was never met");
}

/// For these CRIU need not work.
#[test]
fn mistakes_are_told_before_anything_is_done() {
    skip_unless!(works());
    let rig = rig();
    let config = rig.config(&["sh", "-c", COUNTING]);
    let container = rig.create(&config).unwrap();
    let images = rig.outside("images");
    let said = checkpoint(&rig, &images, &[], &container.id);
    assert!(
        !said.ok && said.err.contains("cannot be checkpointed in created state"),
        "{said:?}"
    );
    let said = ended(rig.command().args(["start", &container.id]));
    assert!(said.ok, "{said:?}");
    for (flags, words) in [
        (&["--parent-path", "/absolute"][..], "must be relative"),
        (&["--parent-path", "nowhere"], "nowhere"),
        (
            &["--manage-cgroups-mode", "nonsense"],
            "manage-cgroups-mode",
        ),
        (&["--page-server", "nowhere"], "ADDRESS:PORT"),
        (&["--page-server", "here:99999"], "port"),
        (&["--empty-ns", "pid"], "not supported"),
    ] {
        let said = checkpoint(&rig, &images, flags, &container.id);
        assert!(!said.ok && said.err.contains(words), "{flags:?}: {said:?}");
    }
    let mut without = rig.command();
    without
        .env("PATH", "/nowhere")
        .args(["checkpoint", "--image-path"]);
    let said = ended(without.arg(&images).arg(&container.id));
    assert!(
        !said.ok && said.err.contains("executable file not found"),
        "{said:?}"
    );
    // It has come to no harm.
    counts_beyond(&rig, counted(&rig));

    let (id, bundle) = rig.bundle(&config);
    let nowhere = images.join("nowhere");
    let said = ended(&mut restoring(&rig, &nowhere, &bundle, &["-d"], &id));
    assert!(!said.ok && said.err.contains("nowhere"), "{said:?}");
    assert!(is_gone(&rig, &id));
    let said = ended(&mut restoring(&rig, &images, &bundle, &[], &container.id));
    assert!(!said.ok && said.err.contains("already exists"), "{said:?}");
    counts_beyond(&rig, counted(&rig));
}
