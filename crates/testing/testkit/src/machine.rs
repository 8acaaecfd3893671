//! What this machine can do, and the skip that says why a test did not run.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Whether the tests run as root: nearly all that touches the kernel needs it.
pub fn is_root() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err("needs root".to_owned())
    }
}

/// Finds a program on the path (and in the system directories, which users lack).
pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/lib/cni"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| format!("needs the program {name}; `make deps` installs it"))
}

/// Whether a program is there.
pub fn has_program(name: &str) -> Result<(), String> {
    program(name).map(drop)
}

/// The runtime that makes pods with users of their own: the one that `.ci/newer` brings, since
/// Debian 12's are too old, else the machine's crun.
pub fn runtime_with_users() -> Result<String, String> {
    let newer = PathBuf::from("/usr/local/lib/orlop-test/bin/crun");
    let found = if newer.is_file() {
        newer
    } else {
        program("crun")?
    };
    let output = Command::new(&found).arg("features").output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let features: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
    if features["linux"]["mountExtensions"]["idmap"]["enabled"] == true {
        return Ok(found.to_string_lossy().into_owned());
    }
    Err(format!(
        "{} makes no mounts with other ids, which pods with users of their own need: crun 1.9 does",
        found.display()
    ))
}

/// The shim of modules of WebAssembly that `make test-wasm` builds: what it is made of is nothing that
/// all who build should wait for.
pub fn wasm_shim() -> Result<String, String> {
    std::env::var("ORLOP_TEST_WASM_SHIM")
        .map_err(|_| "ORLOP_TEST_WASM_SHIM names no shim; `make test-wasm` builds one".to_owned())
}

/// A server of stargz-snapshotter, which Debian has no package of: it takes a socket and a directory, and registries
/// on loopback by plain HTTP.
pub fn stargz_server() -> Result<PathBuf, String> {
    let path = std::env::var_os("ORLOP_TEST_STARGZ").map(PathBuf::from);
    path.filter(|path| path.is_file())
        .ok_or_else(|| "ORLOP_TEST_STARGZ names no server of stargz-snapshotter".to_owned())
}

/// cosign, of which version ever: Debian has the second and the third.
pub fn cosign() -> Result<PathBuf, String> {
    let path = std::env::var_os("ORLOP_TEST_COSIGN").map(PathBuf::from);
    path.filter(|path| path.is_file())
        .ok_or_else(|| "ORLOP_TEST_COSIGN names no cosign".to_owned())
}

/// The script of axe-core, which `.ci/axe` brings into the target directory.
pub fn axe() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("ORLOP_TEST_AXE").map(PathBuf::from) {
        let is_file = named.is_file().then_some(named);
        return is_file.ok_or_else(|| "ORLOP_TEST_AXE names no file".to_owned());
    }
    let own = std::env::current_exe().map_err(|e| format!("the test's own path: {e}"))?;
    let places = own.ancestors().map(|dir| dir.join("axe/axe.min.js"));
    places
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| "needs axe-core; `.ci/axe` brings it from npm's registry".to_owned())
}

/// Whether all that running a pod takes is there: root and an OCI runtime.
pub fn can_run_pods() -> Result<(), String> {
    is_root()?;
    has_program("busybox")?;
    has_program("docker-registry")?;
    has_program("runc").or_else(|_| has_program("crun"))
}

/// Who makes the cgroups of a test's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Directories, made directly.
    Cgroupfs,
    /// Slices and scopes, made by systemd.
    Systemd,
}

impl CgroupDriver {
    /// What `$ORLOP_TEST_CGROUP_DRIVER` says, else what the daemon takes by itself.
    pub fn of_tests() -> Self {
        let by_itself = if is_systemd() && is_cgroup_v2() {
            Self::Systemd
        } else {
            Self::Cgroupfs
        };
        match std::env::var("ORLOP_TEST_CGROUP_DRIVER").as_deref() {
            Err(_) | Ok("") => by_itself,
            Ok("cgroupfs") => Self::Cgroupfs,
            Ok("systemd") => Self::Systemd,
            Ok(other) => {
                panic!("ORLOP_TEST_CGROUP_DRIVER is {other:?}; there are cgroupfs and systemd")
            }
        }
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        }
    }
}

/// Whether containers can be written out and go on here, with the runtime of the tests.
pub fn criu_works() -> Result<(), String> {
    program("criu").map_err(|_| {
        "needs the program criu, which `make test` brings to Debian 12, whose own does not work on \
         newer kernels"
    })?;
    if std::env::var("ORLOP_TEST_RUNTIME").is_ok_and(|runtime| runtime.contains("crun")) {
        let version = Command::new("crun").arg("--version").output();
        let said = version.map(|output| output.stdout).unwrap_or_default();
        if !String::from_utf8_lossy(&said).contains("+CRIU") {
            return Err("this crun was built without CRIU".to_owned());
        }
    }
    let checked = Command::new("criu").arg("check").output();
    match checked {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or_default();
            Err(format!("CRIU does not work on this kernel: {line}"))
        }
        Err(error) => Err(format!("criu: {error}")),
    }
}

/// How many times longer than promised a step may take here: 1, or what `ORLOP_TEST_PATIENCE`
/// says of an emulated machine.
pub fn patience() -> u32 {
    let said = std::env::var("ORLOP_TEST_PATIENCE").ok();
    said.and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// Whether nobody minds what tests do to the whole machine, to its clock say: a VM of theirs.
pub fn is_for_the_tests_alone() -> Result<(), String> {
    if std::env::var_os("ORLOP_TEST_OWN_MACHINE").is_some() {
        Ok(())
    } else {
        Err(
            "this machine is not the tests' own (ORLOP_TEST_OWN_MACHINE says that it is)"
                .to_owned(),
        )
    }
}

/// Whether systemd is the init of this machine.
pub fn is_systemd() -> bool {
    std::path::Path::new("/run/systemd/system").is_dir()
}

/// Whether the resources of this machine are governed by cgroup v2.
pub fn is_cgroup_v2() -> bool {
    std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Where cgroup version 2 is mounted on a machine whose resources are governed by version 1.
pub fn v2_beside_v1() -> Option<PathBuf> {
    if is_cgroup_v2() {
        return None;
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = table.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// Notes that a test is skipped; fails it instead where skips are forbidden.
///
/// `$ORLOP_TEST_SKIPS` names a file that collects the reasons for the end of the run;
/// `$ORLOP_TEST_NO_SKIP` turns a skip into a failure, for machines that must have all.
#[doc(hidden)]
pub fn note_skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    assert!(
        std::env::var_os("ORLOP_TEST_NO_SKIP").is_none(),
        "{test} may not be skipped here: {reason}"
    );
    if let Some(list) = std::env::var_os("ORLOP_TEST_SKIPS") {
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&list);
        if let Ok(mut file) = opened {
            // One short write: lines of tests that skip side by side don't mix.
            let _ = file.write_all(format!("{test}: {reason}\n").as_bytes());
        }
    }
}

/// The name of the test that runs on this thread.
#[doc(hidden)]
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Ends a test early, saying why: `skip!("needs cgroup v2")`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::machine::note_skip(&$crate::machine::test_name(), &format!($($reason)*));
        return;
    }};
}

/// Skips the test where a need (a `Result<(), String>`) is not met.
#[macro_export]
macro_rules! skip_unless {
    ($need:expr) => {
        if let Err(reason) = $need {
            $crate::machine::note_skip(&$crate::machine::test_name(), &reason);
            return;
        }
    };
}
