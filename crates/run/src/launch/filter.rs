//! System call filters: compiled once per profile and kept.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use orlop_disk::Outlives;
use orlop_oci::Seccomp;
use orlop_seccomp::Program;

use crate::error::{Result, While};
use crate::log::Log;

/// Where filters are kept below the directory of all containers; no container is named so.
const KEPT: &str = ".seccomp";

/// The most that is read of a kept filter: the kernel takes 4096 instructions of 8 bytes.
const LIMIT: u64 = 64 << 10;
/// With its profile before it.
const KEPT_LIMIT: u64 = 1 << 20;

/// The filter of a profile. What cannot be kept is compiled again next time.
pub(crate) fn filter(root: &Path, profile: &Seccomp, log: &Log) -> Result<Program> {
    let text = serde_json::to_vec(profile).doing(|| "linux.seccomp".to_owned())?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let path = root.join(KEPT).join(format!("{:016x}", hasher.finish()));
    // The whole profile is compared: a number that two of them share gives neither the other's filter.
    if let Ok(kept) = orlop_disk::read_file(&path, KEPT_LIMIT)
        && let Some(kept) = kept.strip_prefix(text.as_slice())
        && let Ok(program) = Program::from_bytes(kept)
    {
        return Ok(program);
    }
    let program = Program::compile(profile).doing(|| "linux.seccomp".to_owned())?;
    for name in Program::unknown_names(profile) {
        log.debug(|| format!("linux.seccomp: system call {name:?} is unknown, passed over"));
    }
    let _ = fs::create_dir(root.join(KEPT));
    let kept = [text, program.to_bytes()].concat();
    let _ = orlop_disk::write_file(&path, 0o600, Outlives::Kill, &kept);
    Ok(program)
}

/// A filter that was written down, unless it is broken.
pub(crate) fn read(path: &Path) -> Option<Program> {
    let bytes = orlop_disk::read_file(path, LIMIT).ok()?;
    Program::from_bytes(&bytes).ok()
}

/// Writes a filter down.
pub(crate) fn write(path: &Path, program: &Program) -> Result<()> {
    orlop_disk::write_file(path, 0o600, Outlives::Kill, &program.to_bytes())
        .doing(|| format!("writing {}", path.display()))
}
