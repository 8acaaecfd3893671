//! The paths of the programs under test.

use std::path::{Path, PathBuf};

/// Whether the programs under test are the optimised ones, of which some things are promised
/// that nobody promises of others: those of `$ORLOP_TEST_RELEASE`, or of this very build.
pub fn is_release() -> bool {
    std::env::var_os(RELEASE).is_some() || !cfg!(debug_assertions)
}

/// Names the directory of optimised programs.
const RELEASE: &str = "ORLOP_TEST_RELEASE";

/// The daemon's program: `$ORLOP_BIN`, else the one in `$ORLOP_TEST_RELEASE`, else the one that
/// was built with this test.
pub fn binary() -> PathBuf {
    find("ORLOP_BIN", "orlop")
}

/// The keeper's program: `$ORLOP_KEEPER_BIN`, else the one beside the daemon's.
pub fn keeper_binary() -> PathBuf {
    find("ORLOP_KEEPER_BIN", "orlop-keeper")
}

/// The program that serves lazy layers: `$ORLOP_LAZY_BIN`, else the one beside the daemon's.
pub fn lazy_binary() -> PathBuf {
    find("ORLOP_LAZY_BIN", "orlop-lazy")
}

/// The runtime under test.
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
    // A test runs as TARGET/PROFILE/deps/NAME-HASH, a tool as TARGET/PROFILE/NAME.
    let own = std::env::current_exe().expect("the test's own path");
    let directories = own.ancestors().skip(1).take(2);
    let mut candidates = directories.map(|directory| directory.join(name));
    let candidate = candidates.find(|path| path.is_file());
    candidate.unwrap_or_else(|| {
        panic!("{name} is not built: run `cargo build -p {name}`, or set {variable}")
    })
}
