//! Who tries what is wrong, and judges what is said and left.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_testkit::leaks;
use serde_json::Value;

use crate::rig::Rig;

/// A runtime and its directory, and what was wrong.
pub(crate) struct Judge {
    pub(crate) rig: Rig,
    wrong: RefCell<Vec<String>>,
}

/// Begins a test: skips it where no container can be made, else gives a [`Judge`].
macro_rules! judge {
    () => {{
        orlop_testkit::skip_unless!($crate::rig::works());
        $crate::bad_input::judge::Judge::new()
    }};
}
pub(crate) use judge;

impl Judge {
    pub(crate) fn new() -> Self {
        let rig = Rig::new();
        // Others' users look for the root file system.
        for dir in [rig.root.as_path(), rig.root.parent().unwrap()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self {
            rig,
            wrong: RefCell::default(),
        }
    }

    /// A configuration that is changed cannot be run, for this reason.
    pub(crate) fn config(&self, change: impl FnOnce(&mut Value), why: &str) {
        let mut config = self.rig.config(&["true"]);
        change(&mut config);
        let (id, bundle) = self.rig.bundle(&config);
        self.bundle(&id, &bundle, why);
    }

    /// Neither a `create` nor a `run` of a bundle.
    pub(crate) fn bundle(&self, id: &str, bundle: &Path, why: &str) {
        for verb in ["create", "run"] {
            let args = [
                verb.as_ref(),
                "--bundle".as_ref(),
                bundle.as_os_str(),
                id.as_ref(),
            ];
            let why = format!("orlop-run {verb} failed: {why}");
            self.refused(&args, 1, &why);
            self.nothing_is_left(id, &why);
        }
    }

    /// With a log and without.
    pub(crate) fn refused(&self, args: &[&OsStr], code: i32, why: &str) {
        let log = self.rig.outside("log").join("log");
        let _ = fs::remove_file(&log);
        let mut command = self.rig.command();
        command
            .arg("--log")
            .arg(&log)
            .args(["--log-format", "json"])
            .args(args);
        let err = self.told(&mut command, code, why);
        if !err.starts_with(why) || err.lines().count() != 1 {
            self.wrong(format!("wanted {why:?}\n   got {err:?}"));
        }
        let logged = fs::read_to_string(&log).unwrap_or_default();
        let errors: Vec<Value> = logged
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["level"] == "error")
            .collect();
        let [error] = &errors[..] else {
            self.wrong(format!("{why}: logged {logged:?}"));
            return;
        };
        if error["msg"] != err.strip_suffix('\n').unwrap_or_default()
            || error["time"].as_str().is_none_or(|it| it.len() < 20)
        {
            self.wrong(format!("{why}: logged {logged:?}"));
        }
        let mut command = self.rig.command();
        let err = self.told(command.args(args), code, why);
        let quoted = Value::from(why).to_string();
        let quoted = quoted.trim_end_matches('"');
        if !err.contains(&format!("level=error msg={quoted}")) {
            self.wrong(format!("wanted {quoted}\n   got {err:?}"));
        }
    }

    pub(crate) fn told(&self, command: &mut Command, code: i32, why: &str) -> String {
        let err = tempfile::tempfile().unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(err.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if std::time::Instant::now() > end => {
                    let _ = child.kill();
                    break child.wait().unwrap();
                }
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        if status.code() != Some(code) {
            self.wrong(format!("{why}: {status}"));
        }
        let mut err = err;
        std::io::Seek::rewind(&mut err).unwrap();
        std::io::read_to_string(err).unwrap()
    }

    pub(crate) fn nothing_is_left(&self, id: &str, why: &str) {
        let left = leaks::find(id, &[]);
        let state = self.rig.outside("state").join(id);
        if !left.is_empty() || state.exists() {
            self.wrong(format!("{why}: left {left:?} {}", state.exists()));
        }
    }

    pub(crate) fn wrong(&self, what: String) {
        self.wrong.borrow_mut().push(what);
    }

    pub(crate) fn verdict(self) {
        let wrong = self.wrong.take();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
