//! A bundle being wished for, and how its container lives.

use serde_json::{Value, json};

/// Where the probe is in a container.
pub(crate) const PROBE: &str = "/oci-probe";

/// What is asked of a runtime.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) config: Value,
    pub(crate) life: Life,
    /// The terminal of an executed process, and what else `process.json` says of it.
    pub(crate) exec: Option<Value>,
}

/// Which of the runtime's commands are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// `run` in the foreground.
    Run,
    /// `create`, `state`, `start`, perhaps `exec`, `kill`, `delete`.
    Steps,
}

impl Wish {
    /// A container of its own namespaces with the usual mounts, and nothing else.
    pub(crate) fn new(name: &str) -> Self {
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": { "uid": 0, "gid": 0 },
                "args": [PROBE],
                "env": ["PATH=/bin:/usr/bin"],
                "cwd": "/",
                "capabilities": {},
            },
            "root": { "path": "rootfs", "readonly": false },
            "hostname": "judged",
            "mounts": [
                { "destination": "/proc", "type": "proc", "source": "proc" },
                { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                  "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] },
                { "destination": "/dev/pts", "type": "devpts", "source": "devpts",
                  "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] },
                { "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
                  "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] },
                { "destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
                  "options": ["nosuid", "noexec", "nodev"] },
                { "destination": "/sys", "type": "sysfs", "source": "sysfs",
                  "options": ["nosuid", "noexec", "nodev", "ro"] },
            ],
            "linux": {
                "namespaces": [
                    { "type": "pid" }, { "type": "network" }, { "type": "ipc" },
                    { "type": "uts" }, { "type": "mount" },
                ],
            },
        });
        Self {
            name: name.to_owned(),
            config,
            life: Life::Run,
            exec: None,
        }
    }

    pub(crate) fn process(&mut self) -> &mut Value {
        &mut self.config["process"]
    }

    pub(crate) fn linux(&mut self) -> &mut Value {
        &mut self.config["linux"]
    }

    /// Lives in steps, so that the machine's side can be looked at.
    pub(crate) fn in_steps(&mut self) {
        self.life = Life::Steps;
    }

    /// Sets limits of one controller.
    pub(crate) fn limit(&mut self, controller: &str, limits: Value) {
        self.linux()["resources"][controller] = limits;
        self.in_steps();
    }

    pub(crate) fn mount(&mut self, destination: &str, kind: &str, source: &str, options: &[&str]) {
        let mount = json!({
            "destination": destination, "type": kind, "source": source, "options": options,
        });
        self.mounts().push(mount);
    }

    /// Other options for a mount that is there already.
    pub(crate) fn remount(&mut self, destination: &str, options: &[&str]) {
        for mount in self.mounts() {
            if mount["destination"] == destination {
                mount["options"] = json!(options);
            }
        }
    }

    pub(crate) fn without_mount(&mut self, destination: &str) {
        self.mounts().retain(|mount| {
            !mount["destination"]
                .as_str()
                .is_some_and(|at| at.starts_with(destination))
        });
    }

    fn mounts(&mut self) -> &mut Vec<Value> {
        let mounts = self.config["mounts"].as_array_mut();
        mounts.expect("there are mounts")
    }

    /// A namespace anew.
    pub(crate) fn namespace(&mut self, kind: &str) {
        self.without_namespace(kind);
        self.namespaces().push(json!({ "type": kind }));
    }

    /// A namespace that is there already.
    pub(crate) fn join(&mut self, kind: &str, path: &str) {
        self.without_namespace(kind);
        self.namespaces()
            .push(json!({ "type": kind, "path": path }));
    }

    /// The machine's own.
    pub(crate) fn without_namespace(&mut self, kind: &str) {
        self.namespaces().retain(|one| one["type"] != kind);
        if kind == "uts" {
            // Nobody may name the machine.
            if let Some(config) = self.config.as_object_mut() {
                config.remove("hostname");
                config.remove("domainname");
            }
        }
    }

    fn namespaces(&mut self) -> &mut Vec<Value> {
        let namespaces = self.config["linux"]["namespaces"].as_array_mut();
        namespaces.expect("there are namespaces")
    }

    pub(crate) fn capabilities(&mut self, sets: &[&str], names: &[&str]) {
        for set in sets {
            self.process()["capabilities"][*set] = json!(names);
        }
    }

    /// Adds to a list, which need not be there.
    pub(crate) fn add(list: &mut Value, item: Value) {
        match list.as_array_mut() {
            Some(list) => list.push(item),
            None => *list = json!([item]),
        }
    }
}
