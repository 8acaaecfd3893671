//! The unit that `make install` installs, under a real systemd: skipped where another system is
//! the init, or where orlop is installed already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::machine::{can_run_pods, is_cgroup_v2, is_systemd};
use orlop_testkit::{ContainerSpec, Cri, ImageBuilder, PodSpec, Registry, Scratch, skip_unless};
use rustix::fs::{FlockOperation, flock};

const SERVICE: &str = include_str!("../../../../contrib/systemd/orlop.service");
const SOCKET: &str = include_str!("../../../../contrib/systemd/orlop.socket");

/// Where units live that are gone with the next boot.
const UNITS: &str = "/run/systemd/system";
/// Where an administrator's units live.
const INSTALLED: &str = "/etc/systemd/system/orlop.service";
const ENDPOINT: &str = "/run/orlop/orlop.sock";
/// What the daemon makes where nobody tells it otherwise.
const OWN: [&str; 2] = ["/var/lib/orlop", "/run/orlop"];

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn pods_live_through_all_that_befalls_the_unit() {
    skip_unless!(can_be_installed());
    let unit = Installed::new();
    systemctl(&["start", "orlop.service"]);
    assert_eq!(show("Type"), "notify", "this systemd understands the unit");
    let mut cri = connect().await;
    let scratch = Scratch::new();
    let (pod, busybox) = (unit.pod(&scratch), unit.busybox(&cri).await);
    let pod_id = cri.run_pod(&pod).await.expect("run a pod");
    let spec = ContainerSpec::new("main", &busybox)
        .shell("sleep 6000")
        .memory(64 << 20);
    let id = cri.run(&pod_id, &pod, &spec).await.expect("run");
    let born = cri.status(&id).await.expect("status").started_at;
    let keeper = keeper_of(&pod_id);
    let cgroup = fs::read_to_string(format!("/proc/{keeper}/cgroup")).expect("read");
    assert_eq!(
        cgroup.trim(),
        "0::/system.slice/orlop.service/keepers",
        "keepers live in what is delegated"
    );
    let main = show("MainPID");

    let after = async |what: &str, cri: &mut Cri| {
        *cri = connect().await;
        let status = cri.status(&id).await.expect("status");
        assert_eq!(status.state(), ContainerState::ContainerRunning, "{what}");
        assert_eq!(status.started_at, born, "{what}");
        let ready = cri.pod_status(&pod_id).await.expect("status").state();
        assert_eq!(ready, PodSandboxState::SandboxReady, "{what}");
        assert_eq!(keeper_of(&pod_id), keeper, "{what}");
        // Limits and device rules are as they were.
        let script = "cat /sys/fs/cgroup/memory.max; echo ahoy > /dev/null && echo written";
        let told = cri.exec(&id, &["sh", "-c", script]).await.expect(what);
        assert_eq!(told.stdout, b"67108864\nwritten\n", "{what}: {told:?}");
    };
    after("the start", &mut cri).await;
    systemctl(&["daemon-reload"]);
    after("daemon-reload", &mut cri).await;
    systemctl(&["reload", "orlop.service"]);
    after("reload", &mut cri).await;
    assert_eq!(show("MainPID"), main, "a reload is no restart");
    systemctl(&["restart", "orlop.service"]);
    assert_ne!(show("MainPID"), main);
    after("restart", &mut cri).await;
    systemctl(&["stop", "orlop.service"]);
    assert_eq!(keeper_of(&pod_id), keeper, "stopping ends no pod");
    systemctl(&["start", "orlop.service"]);
    after("stop and start", &mut cri).await;
    let main = show("MainPID");
    systemctl(&["kill", "--kill-who=main", "--signal=KILL", "orlop.service"]);
    wait_for("systemd starts it again", || {
        let now = show("MainPID");
        now != main && now != "0" && show("ActiveState") == "active"
    });
    after("a kill", &mut cri).await;

    // What is made after a restart is as good as what was made before.
    let more = ContainerSpec::new("more", &busybox).shell("exit 7");
    let second = cri.run(&pod_id, &pod, &more).await.expect("run");
    assert_eq!(cri.wait_exited(&second).await.exit_code, 7);
    cri.remove_all_pods().await.expect("remove all pods");
    wait_for("its cgroups are gone", || cgroups_with(&id).is_empty());
}

#[tokio::test]
async fn calls_wait_at_the_socket_while_the_daemon_is_away() {
    skip_unless!(can_be_installed());
    let _unit = Installed::new();
    systemctl(&["start", "orlop.socket"]);
    assert_ne!(show("ActiveState"), "active", "nobody has called yet");
    call().await.expect("the call starts it");
    assert_eq!(show("ActiveState"), "active");
    let mut busy = Command::new("systemctl")
        .args(["restart", "orlop.service"])
        .spawn()
        .expect("run systemctl");
    for _ in 0..5 {
        call().await.expect("the call waits");
    }
    assert!(busy.wait().expect("wait").success());
    systemctl(&["stop", "orlop.service"]);
    assert!(Path::new(ENDPOINT).exists(), "the socket is systemd's");
    call().await.expect("it comes back");
}

/// Containers inherit the unit's restrictions, so that it has few; what it has stays.
#[test]
fn the_unit_is_no_more_exposed_than_before() {
    skip_unless!(can_be_installed());
    const MOST: f32 = 9.6;
    let _unit = Installed::new();
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--no-pager", "orlop.service"]);
    let report = orlop_testkit::process::run_for_text(&mut analyze);
    let (_, figure) = report
        .rsplit_once("orlop.service: ")
        .expect("the report ends with the unit's figure");
    let figure = figure.split_whitespace().next().unwrap_or_default();
    println!("figure: exposure of the unit {figure}");
    let figure: f32 = figure.parse().expect("a number");
    assert!(figure <= MOST, "{report}");
}

/// One call on a connection of its own. On one that was used before, a daemon that ends
/// may close it while the call is on its way: then the client has to call again.
async fn call() -> Result<(), String> {
    let cri = Cri::connect(Path::new(ENDPOINT))
        .await
        .map_err(|error| error.to_string())?;
    cri.version().await.map_err(|error| error.to_string())?;
    Ok(())
}

fn can_be_installed() -> Result<(), String> {
    can_run_pods()?;
    if !is_systemd() || !is_cgroup_v2() {
        return Err("needs systemd and cgroup v2; `make test-vm` has them".to_owned());
    }
    match [INSTALLED, ENDPOINT]
        .iter()
        .find(|path| Path::new(path).exists())
    {
        Some(path) => Err(format!("{path} exists: orlop is installed here")),
        None => Ok(()),
    }
}

/// The units, installed until the test ends.
struct Installed {
    prefix: tempfile::TempDir,
    registry: Registry,
    // There is one machine to install on.
    _turn: fs::File,
}

impl Installed {
    fn new() -> Self {
        let turn = fs::File::create("/run/orlop-unit-test.lock").expect("make a lock");
        flock(&turn, FlockOperation::LockExclusive).expect("take the lock");
        let prefix = tempfile::tempdir().expect("make a directory");
        let bin = prefix.path().join("bin");
        fs::create_dir(&bin).expect("make a directory");
        for (program, variable) in [("orlop", "ORLOP_BIN"), ("orlop-keeper", "ORLOP_KEEPER_BIN")] {
            let built = std::env::var_os(variable).map_or_else(|| built(program), PathBuf::from);
            fs::copy(built, bin.join(program)).expect("copy a program");
        }
        let service = SERVICE.replace("@PREFIX@", &prefix.path().to_string_lossy());
        fs::create_dir_all(UNITS).expect("make the directory of units");
        fs::write(format!("{UNITS}/orlop.service"), service).expect("write the unit");
        fs::write(format!("{UNITS}/orlop.socket"), SOCKET).expect("write the unit");
        systemctl(&["daemon-reload"]);
        Self {
            prefix,
            registry: Registry::start(),
            _turn: turn,
        }
    }

    /// A pod of the host's network in a slice as a kubelet names it.
    #[expect(clippy::unused_self, reason = "pods are run while the unit is there")]
    fn pod(&self, scratch: &Scratch) -> PodSpec {
        let slice = format!("{}-pod1.slice", scratch.id());
        PodSpec::new("unit", scratch.id(), slice, scratch.subdir("logs"))
    }

    async fn busybox(&self, cri: &Cri) -> String {
        let image = ImageBuilder::busybox().build();
        let reference = self.registry.push(&image, "busybox:1").await;
        cri.pull(&reference).await.expect("pull busybox");
        reference
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = Command::new("journalctl")
                .args(["--no-pager", "--lines=80", "--unit=orlop.service"])
                .output();
            if let Ok(log) = log {
                eprintln!("{}", String::from_utf8_lossy(&log.stdout));
            }
        }
        for unit in ["orlop.socket", "orlop.service"] {
            let _ = Command::new("systemctl").args(["stop", unit]).status();
            let _ = fs::remove_file(format!("{UNITS}/{unit}"));
        }
        // Their pods are asked to end by the test; after a failure they are killed.
        for pid in pids_with(&self.prefix.path().to_string_lossy()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = Command::new("systemctl").arg("daemon-reload").status();
        for dir in OWN {
            orlop_testkit::scratch::unmount_below(Path::new(dir));
            let _ = orlop_fs::remove_tree(dir.as_ref());
        }
    }
}

fn built(program: &str) -> PathBuf {
    match program {
        "orlop" => env!("CARGO_BIN_EXE_orlop").into(),
        _ => Path::new(env!("CARGO_BIN_EXE_orlop")).with_file_name(program),
    }
}

async fn connect() -> Cri {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = match Cri::connect(Path::new(ENDPOINT)).await {
            Ok(cri) => match cri.version().await {
                Ok(_) => return cri,
                Err(status) => status.to_string(),
            },
            Err(error) => error.to_string(),
        };
        assert!(Instant::now() < deadline, "no answer: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn systemctl(words: &[&str]) {
    orlop_testkit::process::run(Command::new("systemctl").args(words));
}

/// A property of the service.
fn show(property: &str) -> String {
    let output = Command::new("systemctl")
        .args(["show", "--value", "--property", property, "orlop.service"])
        .output()
        .expect("run systemctl");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn keeper_of(pod_id: &str) -> i32 {
    let found: Vec<i32> = pids_with(pod_id)
        .into_iter()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "orlop-keeper")
        })
        .collect();
    assert_eq!(found.len(), 1, "one keeper per pod: {found:?}");
    found[0]
}

/// The processes with this word on their command line.
fn pids_with(word: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(word)
        })
        .collect()
}

/// The directories of cgroups with this word in their name.
fn cgroups_with(word: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(word) {
                    found.push(entry.path());
                }
                open.push(entry.path());
            }
        }
    }
    found
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    orlop_testkit::block_until!(LIMIT, holds(), "{what}");
}
