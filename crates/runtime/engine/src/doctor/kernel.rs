//! Check of the required kernel features.

use std::os::fd::OwnedFd;

use rustix::mount::{FsOpenFlags, fsopen};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::Finding;
use crate::spec::selinux_problem;

const AREA: &str = "kernel";

/// The oldest kernel with all required features: detached mounts, `mount_setattr`, `pidfd`.
const OLDEST: (u32, u32) = (5, 12);

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![release()];
    findings.push(overlay());
    findings.push(match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok(AREA, "process file descriptors (pidfd) work"),
        Err(errno) => Finding::problem(
            AREA,
            format!("pidfd_open: {errno}"),
            "run Linux 5.12 or later, outside of sandboxes that block this system call",
        ),
    });
    for (name, used_for) in [
        ("net", "pods with their own network"),
        ("ipc", "pods"),
        ("uts", "host names of pods"),
        ("pid", "containers"),
        ("user", "pods with a user namespace"),
        ("cgroup", "containers on cgroup v2"),
    ] {
        if !std::path::Path::new("/proc/self/ns").join(name).exists() {
            let text = format!("the kernel has no {name} namespaces, which {used_for} require");
            findings.push(Finding::problem(
                AREA,
                text,
                "run a kernel with these namespaces",
            ));
        }
    }
    findings.push(seccomp());
    findings.extend(selinux());
    findings.extend(users());
    findings
}

fn release() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|text| text.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST {
        return Finding::ok(AREA, format!("Linux {release}"));
    }
    let (major, minor) = OLDEST;
    Finding::problem(
        AREA,
        format!("Linux {release} is too old"),
        format!("run kernel {major}.{minor} or later"),
    )
}

fn overlay() -> Finding {
    let opened: Result<OwnedFd, _> = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC);
    match opened {
        Ok(_) => Finding::ok(AREA, "overlay file systems work"),
        Err(rustix::io::Errno::PERM) => Finding::warning(
            AREA,
            "cannot check whether overlay file systems work",
            "run the check as root",
        ),
        Err(errno) => Finding::problem(
            AREA,
            format!("overlay file systems do not work: {errno}"),
            "load the module (`modprobe overlay`), or run a kernel with overlayfs",
        ),
    }
}

fn selinux() -> Option<Finding> {
    let problem = selinux_problem()?;
    let remedy =
        "fix the SELinux policy (docs/guides/selinux.md); no pod can be created until then";
    Some(Finding::problem(AREA, problem, remedy))
}

fn seccomp() -> Finding {
    let actions = "/proc/sys/kernel/seccomp/actions_avail";
    match orlop_fs::read_kernel_text(actions) {
        Ok(text) if text.contains("errno") => {
            Finding::ok(AREA, "system call filters (seccomp) work")
        }
        _ => Finding::warning(
            AREA,
            "the kernel has no system call filters (seccomp)",
            "pods with a seccomp profile fail; run a kernel with CONFIG_SECCOMP_FILTER",
        ),
    }
}

fn users() -> Option<Finding> {
    let path = "/proc/sys/user/max_user_namespaces";
    let text = orlop_fs::read_kernel_text(path).ok()?;
    (text.trim() == "0").then(|| {
        Finding::warning(
            AREA,
            "user namespaces are disabled",
            format!("for pods with hostUsers: false, write a limit above 0 to {path}"),
        )
    })
}
