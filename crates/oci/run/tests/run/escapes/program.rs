//! The runtime's own program and process, from inside.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use serde_json::json;

use crate::rig::{also, copy_program, ended, rig, volume};

/// CVE-2019-5736: who gets hold of the runtime's program by `/proc/PID/exe` waits until it does not run
/// any more, and writes to it.
#[test]
fn the_program_that_enters_containers_cannot_be_written() {
    let mut rig = rig!();
    // One that may be broken.
    let copy = rig.outside("bin").join("runtime");
    copy_program(&rig.runtime, &copy);
    let content = fs::read(&copy).unwrap();
    let sound = std::mem::replace(&mut rig.runtime, copy.clone());

    let container = rig.create(&rig.config(&["true"])).unwrap();
    let held = File::open(format!("/proc/{}/exe", container.pid)).unwrap();
    container.delete();
    rig.runtime = sound;
    let again = OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{}", held.as_raw_fd()));
    // A sealed file is opened, and refuses what is written.
    let refused = again.and_then(|mut program| program.write_all(b"evil"));
    let refused = refused.unwrap_err().raw_os_error();
    let read_only = [Errno::ROFS, Errno::PERM].map(|errno| Some(errno.raw_os_error()));
    assert!(read_only.contains(&refused), "{refused:?}");
    assert!(
        fs::read(&copy).unwrap() == content,
        "the program was changed"
    );
}

/// The same, as it was done: the command that is run in the container is the runtime itself, which is held there
/// for as long as nobody reads its log.
#[test]
fn a_command_that_is_the_runtime_itself_gives_nothing_away() {
    let rig = rig!();
    let copy = rig.outside("bin").join("runtime");
    copy_program(&rig.runtime, &copy);
    let content = fs::read(&copy).unwrap();

    let log = rig.root.join("log");
    mknodat(CWD, &log, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let evil = rig.root.join("bin/evil");
    fs::write(&evil, "#!/proc/self/exe --log=/log\n").unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    // Who is no container yet cannot be opened; the runtime as a command can.
    let writer = "while :; do for exe in /proc/[0-9]*/exe; do
        case $exe in /proc/1/exe) continue ;; esac
        { command exec 7<$exe; } 2>/dev/null || continue
        cat /log >/dev/null
        left=2000
        until { echo evil >/proc/self/fd/7; } 2>/dev/null || [ $left = 0 ]; do
            left=$((left - 1))
        done
        echo held >>/held
    done; done";
    let mut config = rig.config(&["sh", "-c", writer]);
    // What the runtime is linked with, if it is.
    for libraries in ["/lib", "/lib64", "/usr/lib"].map(Path::new) {
        if libraries.exists() {
            let mut mount = volume(libraries, libraries.to_str().unwrap());
            mount["options"] = json!(["rbind", "ro"]);
            also(&mut config, mount);
        }
    }
    let container = rig.start(&config);
    for _ in 0..20 {
        let mut exec = rig.command_of(&copy);
        let said = ended(exec.args(["exec", &container.id, "/bin/evil"]));
        assert!(!said.ok, "{said:?}");
    }
    container.delete();
    let held = fs::read_to_string(rig.root.join("held")).unwrap_or_default();
    assert!(held.lines().count() > 10, "{held:?}");
    assert!(
        fs::read(&copy).unwrap() == content,
        "the program was changed"
    );
}

/// CVE-2016-9962: who shares the process namespace finds the runtime's descriptors in the process that
/// waits to become a container's.
#[test]
fn neighbours_cannot_look_into_a_process_that_is_no_container_yet() {
    let rig = rig!();
    let neighbour = rig.start(&rig.config(&["sleep", "60"]));
    let mut config = rig.config(&["true"]);
    let shared = format!("/proc/{}/ns/pid", neighbour.pid);
    config["linux"]["namespaces"][0] = json!({ "type": "pid", "path": shared });
    let waiting = rig.create(&config).unwrap();

    let status = fs::read_to_string(format!("/proc/{}/status", waiting.pid)).unwrap();
    let inner = status
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap();
    let inner = inner.split_whitespace().next_back().unwrap();
    let seen = neighbour.exec(&[], &["cat", &format!("/proc/{inner}/comm")]);
    assert!(seen.ok, "the namespace is not shared: {seen:?}");
    let look = format!(
        "cd /proc/{inner}; for link in fd/* root cwd exe ns/mnt; do readlink $link && echo seen; done;
         for place in fd/*/ root/ cwd/; do ls -d $place. && echo seen; done; cat mem environ maps && echo seen"
    );
    let said = neighbour.exec(&[], &["sh", "-c", &look]);
    assert!(
        said.out.is_empty() && said.err.contains("ermission denied"),
        "{said:?}"
    );
}
