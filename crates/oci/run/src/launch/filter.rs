//! System call filters: compiled once per profile and kept.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use orlop_fs::Outlives;
use orlop_oci_types::{Profile, Seccomp};
use orlop_seccomp::{COMPILER, Program};

use crate::bundle::{Bundle, CONFIG};
use crate::error::{Result, While};
use crate::json;
use crate::log::Log;
use crate::state::Listener;

const PLACE: &str = "linux.seccomp";

/// Where filters are kept below the directory of all containers; no container is named so.
const KEPT: &str = ".seccomp";

/// The most that is read of a kept filter: the kernel takes 4096 instructions of 8 bytes.
const LIMIT: u64 = 64 << 10;
/// With its profile before it.
const KEPT_LIMIT: u64 = 1 << 20;

/// A filter, and how it is written down.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) program: Program,
    bytes: Vec<u8>,
}

/// The filter of a profile. What cannot be kept is compiled again next time.
pub(crate) fn filter(root: &Path, bundle: &Bundle, profile: &Profile, log: &Log) -> Result<Filter> {
    let key = [COMPILER, profile.text()].concat();
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let path = root.join(KEPT).join(format!("{:016x}", hasher.finish()));
    // The whole profile is compared: a number that two of them share gives neither the other's filter. So is the
    // compiler: after an update that mends it, no container may get what the one before made.
    if let Ok(mut kept) = orlop_fs::read_file(&path, KEPT_LIMIT)
        && kept.starts_with(key.as_bytes())
        && let bytes = kept.split_off(key.len())
        && let Ok(program) = Program::from_bytes(&bytes)
    {
        return Ok(Filter { program, bytes });
    }
    let profile = understood(bundle, profile)?;
    let program = Program::compile(&profile).doing(|| PLACE.to_owned())?;
    for name in Program::unknown_names(&profile) {
        log.debug(|| format!("{PLACE}: ignoring unknown system call {name:?}"));
    }
    let bytes = program.to_bytes();
    let _ = fs::create_dir(root.join(KEPT));
    let kept = [key.as_bytes(), &bytes].concat();
    let _ = orlop_fs::write_file(&path, 0o600, Outlives::Kill, &kept);
    Ok(Filter { program, bytes })
}

/// The agent that a profile names. Hardly any does, and those that do not are not read for it.
pub(crate) fn listener(bundle: &Bundle, profile: &Profile) -> Result<Option<Listener>> {
    let text = profile.text();
    // A name may be written in escapes.
    if !text.contains("listener") && !text.contains('\\') {
        return Ok(None);
    }
    let profile = understood(bundle, profile)?;
    Ok((!profile.listener_path.is_empty()).then(|| Listener {
        path: profile.listener_path.into(),
        metadata: profile.listener_metadata,
    }))
}

/// What a profile says; what makes no sense in it is told by file and field, as all of a bundle's is.
fn understood(bundle: &Bundle, profile: &Profile) -> Result<Seccomp> {
    json::parse_part(PLACE, profile.text().as_bytes())
        .map_err(|error| error.within(bundle.dir.join(CONFIG).display()))
}

/// A filter that was written down, unless it is broken.
pub(crate) fn read(path: &Path) -> Option<Program> {
    let bytes = orlop_fs::read_file(path, LIMIT).ok()?;
    Program::from_bytes(&bytes).ok()
}

/// Writes a filter down.
pub(crate) fn write(path: &Path, filter: &Filter) -> Result<()> {
    orlop_fs::write_file(path, 0o600, Outlives::Kill, &filter.bytes)
        .doing(|| format!("writing {}", path.display()))
}
