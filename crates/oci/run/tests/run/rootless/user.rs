//! A user without rights, with bundles of its own and a runtime that it may execute.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use orlop_testkit::bundle::fill_root;
pub(crate) use orlop_testkit::process::{Said, ended};
use orlop_testkit::{Scratch, machine};
use serde_json::{Value, json};

use crate::rig;

/// Who it is: nobody else on the machine.
pub(crate) const ID: u32 = 64_321;

/// A user, and what is its.
pub(crate) struct User {
    pub(crate) id: u32,
    pub(crate) scratch: Scratch,
    pub(crate) rootfs: PathBuf,
    pub(crate) runtime: PathBuf,
    made: RefCell<Vec<String>>,
}

/// Whether a user without rights can have containers here.
pub(crate) fn works() -> Result<(), String> {
    machine::is_root()?;
    machine::has_program("busybox")?;
    let script = "mount -t proc proc /proc";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--pid", "--fork"])
        .args(["sh", "-c", script])
        .uid(ID)
        .gid(ID);
    match command.stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("users without rights may make no namespaces here".to_owned()),
    }
}

/// Begins a test: skips it where a user cannot have containers, else gives a [`User`].
macro_rules! user {
    () => {{
        orlop_testkit::skip_unless!($crate::rootless::user::works());
        $crate::rootless::user::User::new()
    }};
}
pub(crate) use user;

impl User {
    pub(crate) fn new() -> Self {
        Self::of(ID)
    }

    /// The one with this id.
    pub(crate) fn of(id: u32) -> Self {
        let scratch = Scratch::new();
        let rootfs = scratch.subdir("rootfs");
        let applets = [
            "sh", "cat", "ls", "sleep", "id", "grep", "true", "readlink", "stat",
        ];
        fill_root(&rootfs, &applets);
        // Where the build is the user may not come.
        let runtime = scratch.subdir("program").join("orlop-run");
        fs::copy(rig::runtime(), &runtime).unwrap();
        let user = Self {
            id,
            scratch,
            rootfs,
            runtime,
            made: RefCell::default(),
        };
        for dir in ["run", "rootfs"] {
            user.dir(dir);
        }
        let tree = Command::new("chown")
            .args(["-hR", &format!("{id}:{id}")])
            .arg(&user.rootfs)
            .status();
        assert!(tree.unwrap().success());
        fs::set_permissions(user.scratch.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        user
    }

    /// A directory of the user's.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let dir = self.scratch.subdir(name);
        chown(&dir, Some(self.id), Some(self.id)).unwrap();
        dir
    }

    /// What `spec --rootless` writes, for a container that runs this.
    pub(crate) fn config(&self, args: &[&str]) -> Value {
        let bundle = self.dir("spec");
        let _ = fs::remove_file(bundle.join("config.json"));
        let said = ended(
            self.command()
                .args(["spec", "--rootless"])
                .current_dir(&bundle),
        );
        assert_eq!(said.code, Some(0), "{said:?}");
        let text = fs::read(bundle.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        config["process"]["args"] = json!(args);
        config["process"]["env"] = json!(["PATH=/bin"]);
        config["process"]["terminal"] = false.into();
        config["root"]["path"] = self.rootfs.to_str().unwrap().into();
        config
    }

    /// Writes a bundle down; its container's name is of this test.
    pub(crate) fn bundle(&self, config: &Value) -> (String, PathBuf) {
        let id = format!("{}-{}", self.scratch.id(), self.made.borrow().len());
        self.made.borrow_mut().push(id.clone());
        let bundle = self.dir(&id);
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        (id, bundle)
    }

    /// Runs a container to its end.
    pub(crate) fn run(&self, config: &Value) -> Said {
        let (id, bundle) = self.bundle(config);
        ended(self.command().args(["run", "--bundle"]).arg(bundle).arg(id))
    }

    /// A container that runs.
    pub(crate) fn start(&self, config: &Value) -> String {
        let (id, bundle) = self.bundle(config);
        let mut command = self.command();
        command.args(["run", "--detach", "--bundle"]).arg(bundle);
        out(ended(command.arg(&id)));
        id
    }

    /// A command of the runtime's about a container.
    pub(crate) fn says(&self, words: &[&str]) -> Said {
        ended(self.command().args(words))
    }

    /// The runtime, as the user runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.runtime);
        command
            .uid(self.id)
            .gid(self.id)
            .env("XDG_RUNTIME_DIR", self.scratch.subdir("run"));
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        for id in self.made.take() {
            let _ = self.says(&["delete", "--force", &id]);
        }
    }
}

/// The output of what had to go well.
pub(crate) fn out(said: Said) -> String {
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out
}

/// The words of what had to be refused.
pub(crate) fn refusal(said: Said) -> String {
    assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
    said.err
}
