//! Capabilities of this machine, and skips of tests that need more.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Checks whether the tests run as root: nearly everything that touches the kernel needs it.
pub fn is_root() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err("needs root".to_owned())
    }
}

/// Finds a program in the path and in the system directories, which are not in users' paths.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/lib/cni"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| format!("needs the program {name}; `make deps` installs it"))
}

/// Checks whether a program is installed.
pub fn has_program(name: &str) -> Result<(), String> {
    program(name).map(drop)
}

/// Returns the OCI runtime for pods with user namespaces: the one from `.ci/newer`, as those of Debian 12 are too old,
/// else the machine's crun.
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

/// Returns the WebAssembly shim that `make test-wasm` builds. It is not part of the usual build, as its dependencies
/// are large.
pub fn wasm_shim() -> Result<String, String> {
    std::env::var("ORLOP_TEST_WASM_SHIM")
        .map_err(|_| "ORLOP_TEST_WASM_SHIM names no shim; `make test-wasm` builds one".to_owned())
}

/// Returns a program that serves stargz-snapshotter, which Debian does not package. It takes a socket and a directory,
/// and uses plain HTTP for loopback registries.
pub fn stargz_server() -> Result<PathBuf, String> {
    let path = std::env::var_os("ORLOP_TEST_STARGZ").map(PathBuf::from);
    path.filter(|path| path.is_file())
        .ok_or_else(|| "ORLOP_TEST_STARGZ names no server of stargz-snapshotter".to_owned())
}

/// Returns cosign in any version: Debian has the second and the third.
pub fn cosign() -> Result<PathBuf, String> {
    let path = std::env::var_os("ORLOP_TEST_COSIGN").map(PathBuf::from);
    path.filter(|path| path.is_file())
        .ok_or_else(|| "ORLOP_TEST_COSIGN names no cosign".to_owned())
}

/// Returns the script of axe-core, which `.ci/axe` puts into the target directory.
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

/// Checks for everything that running a pod needs: root and an OCI runtime.
pub fn can_run_pods() -> Result<(), String> {
    is_root()?;
    has_program("busybox")?;
    has_program("docker-registry")?;
    has_program("runc").or_else(|_| has_program("crun"))
}

/// Cgroup driver of a test's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Cgroup directories, created directly.
    Cgroupfs,
    /// Slices and scopes, created by systemd.
    Systemd,
}

impl CgroupDriver {
    /// Returns the driver in `$ORLOP_TEST_CGROUP_DRIVER`, else the daemon's default.
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

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        }
    }
}

/// Checks whether checkpoint and restore work here with the runtime of the tests.
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

/// Returns the factor for time limits: 1, or `ORLOP_TEST_PATIENCE` for an emulated machine.
pub fn patience() -> u32 {
    let said = std::env::var("ORLOP_TEST_PATIENCE").ok();
    said.and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// Checks whether tests may change the whole machine, such as its clock: it is a VM for the tests.
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

/// Returns whether systemd is the init of this machine.
pub fn is_systemd() -> bool {
    std::path::Path::new("/run/systemd/system").is_dir()
}

/// Returns whether cgroup v2 controls the resources of this machine.
pub fn is_cgroup_v2() -> bool {
    std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Returns the mount point of cgroup v2 on a machine with controllers in v1.
pub fn v2_beside_v1() -> Option<PathBuf> {
    if is_cgroup_v2() {
        return None;
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = table.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// Records that a test is skipped, or fails it if skips are forbidden. `$ORLOP_TEST_SKIPS` names a file that collects
/// the reasons. `$ORLOP_TEST_NO_SKIP` turns a skip into a failure, for machines that must support every test.
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
            // One short write, so that lines of parallel tests do not mix.
            let _ = file.write_all(format!("{test}: {reason}\n").as_bytes());
        }
    }
}

/// Returns the name of the test that runs on this thread.
#[doc(hidden)]
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Ends a test early with a reason: `skip!("needs cgroup v2")`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::machine::note_skip(&$crate::machine::test_name(), &format!($($reason)*));
        return;
    }};
}

/// Skips the test if a requirement (a `Result<(), String>`) is not met.
#[macro_export]
macro_rules! skip_unless {
    ($need:expr) => {
        if let Err(reason) = $need {
            $crate::machine::note_skip(&$crate::machine::test_name(), &reason);
            return;
        }
    };
}
