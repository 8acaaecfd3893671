//! What it may do: each try with its outcome. What succeeds is undone.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Read};
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::net::{AddressFamily, SocketType, socket};
use serde_json::{Value, json};

use crate::files::said;

pub(crate) fn all() -> Value {
    let mut found = BTreeMap::new();
    let mut note = |what: String, outcome: Result<String, Error>| {
        found.insert(what, outcome.unwrap_or_else(|error| said(&error)));
    };
    for path in READ {
        note(format!("read {path}"), read(path));
    }
    for path in WRITE {
        note(format!("open {path} to write"), open(path));
    }
    for directory in MAKE {
        note(format!("make a file in {directory}"), make(directory));
    }
    note("make a directory".to_owned(), directory());
    note("change a mode".to_owned(), mode());
    note("make a device".to_owned(), device());
    note("mount".to_owned(), mounting());
    note("set the host's name".to_owned(), name());
    note("open a raw socket".to_owned(), raw());
    note("listen on port 80".to_owned(), listen());
    note("lower the nice value".to_owned(), nice());
    note("execute on /tmp".to_owned(), execute());
    json!(found)
}

/// What may be masked.
const READ: [&str; 9] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/acpi",
    "/sys/firmware",
    "/made/secret",
    "/made/secrets",
];
/// What may be for reading only. Nothing is written.
const WRITE: [&str; 8] = [
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/shm_rmid_forced",
    "/proc/irq/default_smp_affinity",
    "/proc/self/comm",
    "/made/plain",
    "/made/sealed/plain",
    "/dev/null",
    "/dev/zero",
];
const MAKE: [&str; 9] = [
    "/",
    "/dev",
    "/tmp",
    "/sys",
    "/dev/shm",
    "/made",
    "/made/sealed",
    "/mnt",
    "/mnt/below",
];

fn read(path: &str) -> Result<String, Error> {
    if std::fs::metadata(path)?.is_dir() {
        let entries = std::fs::read_dir(path)?;
        return Ok(format!("{} entries", entries.count()));
    }
    let mut first = [0; 16];
    let count = File::open(path)?.read(&mut first)?;
    Ok(if count == 0 { "nothing" } else { "something" }.to_owned())
}

fn open(path: &str) -> Result<String, Error> {
    File::options().write(true).open(path)?;
    Ok(DONE.to_owned())
}

fn make(directory: &str) -> Result<String, Error> {
    let path = format!("{directory}/.oci-probe");
    File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    Ok(DONE.to_owned())
}

fn directory() -> Result<String, Error> {
    std::fs::create_dir("/tmp/.oci-probe.d")?;
    std::fs::remove_dir("/tmp/.oci-probe.d")?;
    Ok(DONE.to_owned())
}

fn mode() -> Result<String, Error> {
    let look = std::fs::metadata("/tmp")?;
    std::fs::set_permissions("/tmp", look.permissions())?;
    Ok(DONE.to_owned())
}

fn device() -> Result<String, Error> {
    let null = rustix::fs::makedev(1, 3);
    let path = "/tmp/.oci-probe.null";
    mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, null)?;
    let opened = File::open(path).map(drop);
    std::fs::remove_file(path)?;
    Ok(format!("{DONE}, {}", outcome(opened)))
}

fn mounting() -> Result<String, Error> {
    mount("none", "/tmp", "tmpfs", MountFlags::empty(), None)?;
    unmount("/tmp", UnmountFlags::DETACH)?;
    Ok(DONE.to_owned())
}

fn name() -> Result<String, Error> {
    // To what it is already.
    let names = rustix::system::uname();
    rustix::system::sethostname(names.nodename().to_bytes())?;
    Ok(DONE.to_owned())
}

fn raw() -> Result<String, Error> {
    socket(
        AddressFamily::INET,
        SocketType::RAW,
        Some(rustix::net::ipproto::ICMP),
    )?;
    Ok(DONE.to_owned())
}

fn listen() -> Result<String, Error> {
    // Where the network is the host's the port may be taken: a high one tells as little as none.
    std::net::UdpSocket::bind("127.0.0.1:80")?;
    Ok(DONE.to_owned())
}

fn nice() -> Result<String, Error> {
    let now = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(None, now - 1)?;
    rustix::process::setpriority_process(None, now)?;
    Ok(DONE.to_owned())
}

fn execute() -> Result<String, Error> {
    let path = "/tmp/.oci-probe.sh";
    std::fs::write(path, "")?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    let path = CString::new(path)?;
    let may = rustix::fs::access(path.as_c_str(), rustix::fs::Access::EXEC_OK);
    std::fs::remove_file("/tmp/.oci-probe.sh")?;
    may?;
    Ok(DONE.to_owned())
}

fn outcome(result: Result<(), Error>) -> String {
    result.map_or_else(|error| said(&error), |()| DONE.to_owned())
}

const DONE: &str = "done";
