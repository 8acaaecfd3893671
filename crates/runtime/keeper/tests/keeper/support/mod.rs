//! A pod with a real keeper and a real runtime, and what it leaves behind removed.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

use std::ffi::CStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orlop_launch::{
    CreateContainer, ExecCommand, ExecIo, ExitStatus, Keeper, KeeperEvent, KeeperEvents,
    KeeperSpec, OciRuntime, PodNamespaces, StartBy, StartedExec,
};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A mount namespace with few mounts, as the daemon has it made once.
pub(crate) fn few_mounts() -> Option<Arc<OwnedFd>> {
    static MADE: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    let made = MADE.get_or_init(|| Arc::new(orlop_launch::few_mounts().unwrap()));
    Some(Arc::clone(made))
}

/// A pod under test. Everything it makes is gone when it is dropped.
pub(crate) struct Pod {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) keeper: Keeper,
    pub(crate) events: KeeperEvents,
    pub(crate) runtime: OciRuntime,
    /// Below every cgroup hierarchy.
    pub(crate) cgroup: String,
    pub(crate) keeper_pid: u32,
}

/// A container, as its test wants it.
pub(crate) struct Wish {
    pub(crate) create: CreateContainer,
    pub(crate) config: Value,
}

/// The keeper: `$ORLOP_KEEPER_BIN`, else the one that was built with the test.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("ORLOP_KEEPER_BIN")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_orlop-keeper").into())
        .into()
}

impl Pod {
    pub(crate) async fn new() -> Self {
        Self::with(|_, _| {}).await
    }

    /// Writes to a container's standard input, which ends when it is dropped.
    pub(crate) async fn input(&self, id: &str) -> std::io::PipeWriter {
        let (theirs, ours) = std::io::pipe().unwrap();
        let streams = orlop_launch::AttachStreams {
            stdin: Some(theirs.into()),
            ..Default::default()
        };
        self.keeper.attach(id, streams).await.unwrap();
        ours
    }

    /// A pod whose keeper's specification, made in the given directory, is changed first.
    pub(crate) async fn with(change: impl FnOnce(&Path, &mut KeeperSpec)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("orlop-keeper-test-{}-{number}", std::process::id());
        let dir = tempfile::Builder::new().prefix(&name).tempdir().unwrap();
        let pod_dir = dir.path().join("pod");
        fs::create_dir(&pod_dir).unwrap();
        let mut spec = KeeperSpec {
            program: program(),
            pod_id: name.clone(),
            dir: pod_dir,
            namespaces: PodNamespaces {
                net: true,
                ipc: true,
                uts: true,
                ..PodNamespaces::default()
            },
            few_mounts: few_mounts(),
            ..KeeperSpec::default()
        };
        change(dir.path(), &mut spec);
        let (keeper, events) = Keeper::spawn(spec).await.unwrap();
        let runtime = std::env::var("ORLOP_TEST_RUNTIME").unwrap_or_else(|_| "runc".into());
        let mut runtime = OciRuntime::new("runc", runtime, dir.path().join("runc"));
        runtime.state_as_runc = runtime.features(LIMIT).await.unwrap().is_runc();
        Self {
            keeper_pid: keeper.pid(),
            dir,
            keeper,
            events,
            runtime,
            cgroup: format!("/{name}"),
        }
    }

    /// The names of the keeper's own mounts, which have their places below a directory of its own.
    pub(crate) fn own_mounts(&self) -> Vec<String> {
        let open = format!("/proc/{}/fd", self.keeper_pid);
        let names = |dir: PathBuf| {
            let entries = fs::read_dir(dir).ok()?.flatten();
            let mut names: Vec<_> = entries
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect();
            names.sort();
            let are_numbers = names.iter().all(|name| name.parse::<u32>().is_ok());
            (are_numbers && !names.is_empty()).then_some(names)
        };
        let mut open = fs::read_dir(open).unwrap().flatten();
        open.find_map(|fd| names(fd.path())).unwrap_or_default()
    }

    pub(crate) fn pod_dir(&self) -> PathBuf {
        self.dir.path().join("pod")
    }

    pub(crate) fn bundle(&self, id: &str) -> PathBuf {
        self.dir.path().join(id)
    }

    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.dir.path().join(format!("{id}.log"))
    }

    /// A container that runs a shell script.
    pub(crate) fn script(&self, id: &str, script: &str) -> Wish {
        let ns = |kind: &str| format!("/proc/{}/ns/{kind}", self.keeper_pid);
        let device = |access: &str, allow: bool| json!({"allow": allow, "access": access});
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": ["/bin/sh", "-c", script],
                "env": ["PATH=/bin", "TERM=xterm"],
                "cwd": "/",
                "oomScoreAdj": 0,
            },
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
                 "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
            ],
            "linux": {
                "cgroupsPath": format!("{}/{id}", self.cgroup),
                "namespaces": [
                    {"type": "pid"}, {"type": "mount"},
                    {"type": "network", "path": ns("net")},
                    {"type": "ipc", "path": ns("ipc")},
                    {"type": "uts", "path": ns("uts")},
                ],
                "resources": {"devices": [device("rwm", true)]},
            },
        });
        Wish {
            create: CreateContainer {
                id: id.to_owned(),
                bundle: self.bundle(id),
                log_path: Some(self.log_path(id)),
                ..CreateContainer::default()
            },
            config,
        }
    }

    /// Makes a container's bundle.
    pub(crate) fn write_bundle(wish: &Wish) {
        let bundle = &wish.create.bundle;
        let bin = bundle.join("rootfs/bin");
        fs::create_dir_all(&bin).unwrap();
        for dir in ["proc", "dev", "tmp"] {
            fs::create_dir_all(bundle.join("rootfs").join(dir)).unwrap();
        }
        if !bin.join("busybox").exists() {
            fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
            for applet in [
                "sh", "cat", "sleep", "head", "tr", "stty", "hostname", "nc", "setsid", "tail",
                "kill", "true", "dd", "ls", "mount", "ps", "printf",
            ] {
                symlink("busybox", bin.join(applet)).unwrap();
            }
        }
        let text = wish.config.to_string();
        fs::write(bundle.join("config.json"), text).unwrap();
    }

    pub(crate) async fn create(&self, wish: &Wish) -> orlop_launch::Result<u32> {
        Self::write_bundle(wish);
        let created = self.keeper.create(&self.runtime, &wish.create, LIMIT).await;
        created.map(|created| created.pid)
    }

    pub(crate) async fn start(&self, id: &str) -> orlop_launch::Result<()> {
        self.start_by(StartBy::Keeper, id).await
    }

    pub(crate) async fn start_by(&self, by: StartBy, id: &str) -> orlop_launch::Result<()> {
        let bundle = self.bundle(id);
        let starting = self.keeper.start(&self.runtime, id, &bundle, by, LIMIT);
        starting.await.map(drop)
    }

    pub(crate) async fn run(&self, wish: &Wish) -> u32 {
        let pid = self.create(wish).await.unwrap();
        self.start(&wish.create.id).await.unwrap();
        pid
    }

    pub(crate) async fn run_script(&self, id: &str, script: &str) -> u32 {
        self.run(&self.script(id, script)).await
    }

    pub(crate) async fn delete(&self, id: &str) {
        self.keeper
            .delete(&self.runtime, id, &self.bundle(id), LIMIT)
            .await
            .unwrap();
    }

    /// Starts a command in a container.
    pub(crate) async fn exec(
        &self,
        exec: &str,
        container: &str,
        args: &[&str],
        io: ExecIo,
    ) -> orlop_launch::Result<StartedExec> {
        let command = self.command_with(exec, container, args, io);
        self.keeper.exec(&self.runtime, command, LIMIT).await
    }

    /// A command that reads and writes nothing.
    pub(crate) fn command(&self, exec: &str, container: &str, args: &[&str]) -> ExecCommand {
        let null = || {
            let mut options = fs::File::options();
            options.read(true).write(true);
            options.open("/dev/null").unwrap().into()
        };
        let io = ExecIo::Streams {
            stdin: null(),
            stdout: null(),
            stderr: null(),
        };
        self.command_with(exec, container, args, io)
    }

    pub(crate) fn command_with(
        &self,
        exec: &str,
        container: &str,
        args: &[&str],
        io: ExecIo,
    ) -> ExecCommand {
        let dir = self.dir.path().join(format!("exec-{exec}"));
        fs::create_dir_all(&dir).unwrap();
        let process = json!({
            "terminal": matches!(io, ExecIo::Terminal(_)),
            "user": {"uid": 0, "gid": 0},
            "args": args,
            "env": ["PATH=/bin"],
            "cwd": "/",
        });
        fs::write(dir.join("process.json"), process.to_string()).unwrap();
        ExecCommand {
            id: exec.to_owned(),
            container: container.to_owned(),
            dir,
            io,
        }
    }

    /// Stops the keeper after a while, for longer than a second.
    pub(crate) async fn stopped_for_long(&self, after: Duration) {
        tokio::time::sleep(after).await;
        kill_process(self.keeper_process(), Signal::STOP).unwrap();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        kill_process(self.keeper_process(), Signal::CONT).unwrap();
    }

    pub(crate) fn keeper_process(&self) -> Pid {
        Pid::from_raw(self.keeper.pid() as i32).unwrap()
    }

    /// The pod's runtime, which takes so many seconds longer.
    pub(crate) fn slow_runtime(&self, seconds: &str) -> OciRuntime {
        let real = self.runtime.program.display().to_string();
        let script = format!("sleep {seconds}; exec {real} \"$@\"");
        let mut slow = fake_runtime(self.dir.path(), "slow", &script);
        slow.root.clone_from(&self.runtime.root);
        slow.state_as_runc = self.runtime.state_as_runc;
        slow
    }

    /// The next event, which must come soon.
    pub(crate) async fn event(&mut self) -> KeeperEvent {
        let next = tokio::time::timeout(LIMIT, self.events.next());
        next.await.expect("no event came")
    }

    /// How the container, the only one to end, has ended.
    pub(crate) async fn exit_of(&mut self, id: &str) -> ExitStatus {
        loop {
            if let KeeperEvent::Exited(exited) = self.event().await {
                assert_eq!(exited.container, id);
                return exited.status;
            }
        }
    }

    /// How the exec session has ended.
    pub(crate) async fn exec_exit_of(&mut self, id: &str) -> ExitStatus {
        loop {
            if let KeeperEvent::ExecExited(exited) = self.event().await {
                assert_eq!(exited.exec, id);
                return exited.status;
            }
        }
    }

    /// The container's log: `(stream, tag, content)` per line.
    pub(crate) fn log(&self, id: &str) -> Vec<(String, String, Vec<u8>)> {
        parse_log(&fs::read(self.log_path(id)).unwrap())
    }

    /// What the container logged, as text.
    pub(crate) fn logged(&self, id: &str) -> String {
        let lines = self.log(id).into_iter().map(|(_, _, content)| content);
        let lines = lines.map(|content| String::from_utf8(content).unwrap() + "\n");
        lines.collect()
    }

    /// Waits until the container has logged something that contains `text`.
    pub(crate) async fn wait_for_log(&self, id: &str, text: &str) {
        eventually(&format!("{text:?} in the log of {id}"), || {
            let log = fs::read(self.log_path(id)).unwrap_or_default();
            String::from_utf8_lossy(&log).contains(text)
        })
        .await;
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // Its namespaces and mounts go with the keeper. On a thread and a connection of its own,
        // since the test's runtime may be unwinding.
        let dir = self.pod_dir();
        let shut_down = std::thread::spawn(move || {
            orlop_testkit::reactor().block_on(async {
                if let Ok((keeper, _)) = Keeper::connect(&dir).await {
                    keeper.shutdown().await.unwrap();
                }
            });
        });
        let comm = fs::read_to_string(format!("/proc/{}/comm", self.keeper_pid));
        if shut_down.join().is_err() && comm.is_ok_and(|comm| comm.trim() == "orlop-keeper") {
            let pid = Pid::from_raw(self.keeper_pid as i32).unwrap();
            let _ = kill_process(pid, Signal::KILL);
        }
        if std::thread::panicking()
            && let Ok(text) = fs::read_to_string(self.pod_dir().join("keeper.log"))
        {
            eprintln!("keeper.log: {text}");
        }
        remove_cgroups(&self.cgroup);
        let _ = orlop_launch::remove_pin(&self.dir.path().join("netns"));
        let private = self.dir.path().join("private");
        let _ = rustix::mount::unmount(&private, rustix::mount::UnmountFlags::DETACH);
    }
}

pub(crate) fn parse_log(log: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    log.split_inclusive(|&byte| byte == b'\n')
        .map(|line| {
            let line = line.strip_suffix(b"\n").expect("a torn line");
            let mut parts = line.splitn(4, |&byte| byte == b' ');
            let time = std::str::from_utf8(parts.next().unwrap()).unwrap();
            assert_eq!(time.len(), "2006-01-02T15:04:05.999999999Z".len(), "{time}");
            let mut word = || String::from_utf8(parts.next().unwrap().to_vec()).unwrap();
            let (stream, tag) = (word(), word());
            (stream, tag, parts.next().unwrap().to_vec())
        })
        .collect()
}

pub(crate) fn fake_runtime(dir: &Path, name: &str, script: &str) -> OciRuntime {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    OciRuntime::new(name, path, dir.join("state"))
}

/// A tmpfs that is mounted nowhere yet.
pub(crate) fn detached_tmpfs(size: &CStr) -> OwnedFd {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    fsconfig_set_string(&fs, c"size", size).unwrap();
    fsconfig_create(&fs).unwrap();
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    fsmount(&fs, flags, MountAttrFlags::empty()).unwrap()
}

/// Waits for something to become true.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    orlop_testkit::wait_until!(LIMIT, is_so(), "waited in vain for {what}");
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The directories in which cgroup hierarchies are mounted.
pub(crate) fn cgroup_roots() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup")
            .then(|| left.split(' ').nth(4).map(PathBuf::from))?
    });
    mounts.collect()
}

fn remove_cgroups(name: &str) {
    for root in cgroup_roots() {
        let top = root.join(name.trim_start_matches('/'));
        for entry in fs::read_dir(&top).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&top);
    }
}

/// All that a pipe still gives, until its writers have closed it.
pub async fn read_to_end(mut from: impl std::io::Read + Send + 'static) -> String {
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    });
    tokio::time::timeout(LIMIT, read).await.unwrap().unwrap()
}
