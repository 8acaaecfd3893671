//! A user who has logged in, and whom a systemd of its own serves.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use orlop_testkit::machine;

use crate::rootless::user::{Said, User, ended, out, works};

/// The user, with an account, whose systemd runs whether it is logged in or not; gone with this.
pub(crate) struct Session {
    pub(crate) user: User,
    pub(crate) name: String,
}

/// Whether there can be one.
pub(crate) fn sessions_work() -> Result<(), String> {
    works()?;
    machine::is_for_the_tests_alone()?;
    if !machine::is_systemd() || !machine::is_cgroup_v2() {
        return Err("needs systemd and cgroup version 2".to_owned());
    }
    for program in ["useradd", "loginctl", "su", "dbus-daemon", "newuidmap"] {
        machine::has_program(program)?;
    }
    Ok(())
}

impl Session {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = 70_000 + std::process::id() % 1_000 * 20 + number;
        let session = Self {
            user: User::of(id),
            name: format!("orlop{id}"),
        };
        let home = session.user.dir("home");
        let (first, last) = (session.others(), session.others() + OTHERS - 1);
        let number = id.to_string();
        let mut group = Command::new("groupadd");
        out(ended(group.args(["--gid", &number, &session.name])));
        let mut add = Command::new("useradd");
        add.args(["--uid", &number, "--gid", &number, "--no-create-home"])
            .args(["--shell", "/bin/sh", "--home-dir"])
            .arg(home);
        out(ended(add.arg(&session.name)));
        let mut others = Command::new("usermod");
        for kind in ["--add-subuids", "--add-subgids"] {
            others.args([kind, &format!("{first}-{last}")]);
        }
        out(ended(others.arg(&session.name)));
        out(ended(
            Command::new("loginctl").args(["enable-linger", &session.name]),
        ));
        out(ended(
            Command::new("systemctl").args(["start", &session.manager()]),
        ));
        session
    }

    /// The first of the ids that it may map beside its own.
    pub(crate) fn others(&self) -> u32 {
        self.user.id * OTHERS
    }

    /// The unit that its systemd is.
    pub(crate) fn manager(&self) -> String {
        format!("user@{}.service", self.user.id)
    }

    /// What a shell says that the user has logged in to, in which `run` is a runtime that asks systemd.
    pub(crate) fn says(&self, script: &str) -> Said {
        self.says_with(self.user.runtime.to_str().unwrap(), script)
    }

    /// The same with another runtime.
    pub(crate) fn says_with(&self, runtime: &str, script: &str) -> Said {
        let script =
            format!("set -eu\nrun() {{ {runtime} --systemd-cgroup \"$@\"; }}\n{LEFT}\n{script}");
        let mut command = Command::new("su");
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        ended(command.args(["-", &self.name, "-c", &script]))
    }
}

/// How many ids it may map beside its own.
pub(crate) const OTHERS: u32 = 1_000;

/// What is left of a container.
const LEFT: &str = "
    left() {
        systemctl --user list-units --all --plain --no-legend | grep -F \"$1\" || true
        find /sys/fs/cgroup -name \"*$1*\"
        ls $XDG_RUNTIME_DIR/orlop-run $XDG_RUNTIME_DIR/runc 2>/dev/null | grep -F \"$1\" || true
    }";

impl Drop for Session {
    fn drop(&mut self) {
        let id = self.user.id.to_string();
        for words in [
            &["loginctl", "disable-linger", &self.name][..],
            &["loginctl", "terminate-user", &self.name],
            &[
                "systemctl",
                "stop",
                &self.manager(),
                &format!("user-{id}.slice"),
            ],
            &["userdel", &self.name],
        ] {
            let _ = ended(Command::new(words[0]).args(&words[1..]));
        }
    }
}
