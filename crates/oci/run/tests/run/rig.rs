//! A root file system, bundles of it, and a runtime that runs them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orlop_testkit::bundle::{self, fill_root};
pub(crate) use orlop_testkit::bundle::{copy_program, mount};
pub(crate) use orlop_testkit::process::{Said, ended, ended_with};
use orlop_testkit::{Scratch, machine};
use serde_json::{Value, json};

/// What containers are made of and with.
pub(crate) struct Rig {
    scratch: Scratch,
    pub(crate) root: PathBuf,
    pub(crate) runtime: PathBuf,
    made: RefCell<Vec<String>>,
}

/// The runtime under test.
pub(crate) fn runtime() -> PathBuf {
    let names = ["ORLOP_TEST_OCI_RUNTIME", "ORLOP_RUN_BIN"];
    let given = names.into_iter().find_map(std::env::var_os);
    given.map_or_else(|| env!("CARGO_BIN_EXE_orlop-run").into(), PathBuf::from)
}

/// Whether containers can be made here.
pub(crate) fn works() -> Result<(), String> {
    machine::is_root()?;
    machine::has_program("busybox")
}

/// Begins a test: skips it where no container can be made, else gives a [`Rig`].
macro_rules! rig {
    () => {{
        orlop_testkit::skip_unless!($crate::rig::works());
        $crate::rig::Rig::new()
    }};
}
pub(crate) use rig;

impl Rig {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let root = scratch.subdir("rootfs");
        let applets = [
            "sh", "cat", "ls", "sleep", "stat", "grep", "pwd", "mkdir", "readlink", "true",
        ];
        fill_root(&root, &applets);
        Self {
            scratch,
            root,
            runtime: runtime(),
            made: RefCell::default(),
        }
    }

    /// A directory outside of all containers.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.scratch.subdir(name)
    }

    /// What engines ask for, for one that runs this.
    pub(crate) fn config(&self, args: &[&str]) -> Value {
        bundle::config(&self.root, args)
    }

    /// Runs a container to its end.
    pub(crate) fn run(&self, config: &Value) -> Said {
        let (id, bundle) = self.bundle(config);
        self.runtime(&["run", "--bundle"], &[bundle.as_os_str(), id.as_ref()])
    }

    /// Makes a container that waits for its start, if it can be made.
    pub(crate) fn create(&self, config: &Value) -> Result<Container<'_>, Said> {
        let (id, bundle) = self.bundle(config);
        let pid_file = bundle.join("pid");
        let args = [
            bundle.as_os_str(),
            "--pid-file".as_ref(),
            pid_file.as_ref(),
            id.as_ref(),
        ];
        let said = self.runtime(&["create", "--bundle"], &args);
        if !said.ok {
            return Err(said);
        }
        let pid = fs::read_to_string(pid_file).unwrap().parse().unwrap();
        Ok(Container { rig: self, id, pid })
    }

    /// A container that runs.
    pub(crate) fn start(&self, config: &Value) -> Container<'_> {
        let container = self
            .create(config)
            .unwrap_or_else(|said| panic!("{said:?}"));
        let said = self.runtime(&["start"], &[container.id.as_ref()]);
        assert!(said.ok, "{said:?}");
        container
    }

    /// Writes a bundle down; its container's name begins with the name of all that this test makes.
    pub(crate) fn bundle(&self, config: &Value) -> (String, PathBuf) {
        let id = format!("{}-{}", self.scratch.id(), self.made.borrow().len());
        self.made.borrow_mut().push(id.clone());
        let mut config = config.clone();
        config["linux"]["cgroupsPath"] = format!("/{id}").into();
        let bundle = self.scratch.subdir(&id);
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        (id, bundle)
    }

    fn runtime(&self, verb: &[&str], args: &[&OsStr]) -> Said {
        ended(self.command().args(verb).args(args))
    }

    /// The runtime, with its directory.
    pub(crate) fn command(&self) -> Command {
        self.command_of(&self.runtime)
    }

    /// The same of another copy of it.
    pub(crate) fn command_of(&self, runtime: &Path) -> Command {
        let mut command = Command::new(runtime);
        command.arg("--root").arg(self.scratch.subdir("state"));
        command
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for id in self.made.take().into_iter().rev() {
            let _ = self.runtime(&["delete", "--force"], &[id.as_ref()]);
        }
    }
}

/// A container that was made.
pub(crate) struct Container<'a> {
    rig: &'a Rig,
    pub(crate) id: String,
    pub(crate) pid: u32,
}

impl Container<'_> {
    /// Runs a command in it.
    pub(crate) fn exec(&self, flags: &[&str], command: &[&str]) -> Said {
        self.exec_with(Stdio::null(), flags, command)
    }

    /// The same with an input.
    pub(crate) fn exec_with(&self, input: Stdio, flags: &[&str], command: &[&str]) -> Said {
        let id: &OsStr = self.id.as_ref();
        let mut exec = self.rig.command();
        exec.arg("exec").args(flags).arg(id).args(command);
        ended_with(&mut exec, input)
    }

    /// Ends it.
    pub(crate) fn delete(&self) {
        let said = self
            .rig
            .runtime(&["delete", "--force"], &[self.id.as_ref()]);
        assert!(said.ok, "{said:?}");
    }
}

/// Gives a container users of its own.
pub(crate) fn with_users(config: &mut Value) {
    let spaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    spaces.push(json!({ "type": "user" }));
    let ids = json!([{ "containerID": 0, "hostID": USERS, "size": 65536 }]);
    config["linux"]["uidMappings"] = ids.clone();
    config["linux"]["gidMappings"] = ids;
}

/// Who root of such a container is outside.
pub(crate) const USERS: u32 = 200_000;

/// A volume.
pub(crate) fn volume(source: &Path, destination: &str) -> Value {
    json!({ "destination": destination, "type": "bind", "source": source, "options": ["rbind", "rw"] })
}

/// Appends a mount to those of a configuration.
pub(crate) fn also(config: &mut Value, mount: Value) {
    config["mounts"].as_array_mut().unwrap().push(mount);
}

/// Takes a mount out of a configuration.
pub(crate) fn without(config: &mut Value, destination: &str) {
    let mounts = config["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| mount["destination"] != destination);
}
