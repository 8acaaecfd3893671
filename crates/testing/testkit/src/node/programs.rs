//! The paths of the programs under test.

use std::path::{Path, PathBuf};

/// Returns whether the programs under test are optimised, as some limits hold only for these: those in
/// `$ORLOP_TEST_RELEASE`, or of this build.
pub fn is_release() -> bool {
    std::env::var_os(RELEASE).is_some() || !cfg!(debug_assertions)
}

/// Variable with the directory of optimised programs.
const RELEASE: &str = "ORLOP_TEST_RELEASE";

/// Returns the daemon: `$ORLOP_BIN`, else the one in `$ORLOP_TEST_RELEASE`, else the one of this build.
pub fn binary() -> PathBuf {
    find("ORLOP_BIN", "orlop")
}

/// Returns the keeper: `$ORLOP_KEEPER_BIN`, else the one beside the daemon.
pub fn keeper_binary() -> PathBuf {
    find("ORLOP_KEEPER_BIN", "orlop-keeper")
}

/// Returns the server of lazy layers: `$ORLOP_LAZY_BIN`, else the one beside the daemon.
pub fn lazy_binary() -> PathBuf {
    find("ORLOP_LAZY_BIN", "orlop-lazy")
}

/// Returns orlop's OCI runtime.
pub fn run_binary() -> PathBuf {
    find("ORLOP_RUN_BIN", "orlop-run")
}

fn find(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    if let Some(dir) = std::env::var_os(RELEASE) {
        return Path::new(&dir).join(name);
    }
    // A test is at TARGET/PROFILE/deps/NAME-HASH, a tool at TARGET/PROFILE/NAME.
    let own = std::env::current_exe().expect("the test's own path");
    let directories = own.ancestors().skip(1).take(2);
    let mut candidates = directories.map(|directory| directory.join(name));
    let candidate = candidates.find(|path| path.is_file());
    candidate.unwrap_or_else(|| {
        panic!("{name} is not built: run `cargo build -p {name}`, or set {variable}")
    })
}
