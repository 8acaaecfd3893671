//! Seccomp filters: compiled once per profile and cached.

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

/// The cache directory in the state root; no container has this name.
const KEPT: &str = ".seccomp";

/// Maximum size of a filter: the kernel takes 4096 instructions of 8 bytes.
const LIMIT: u64 = 64 << 10;
/// The same limit with the profile before the filter.
const KEPT_LIMIT: u64 = 1 << 20;

/// A filter, and its serialized form.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) program: Program,
    bytes: Vec<u8>,
}

/// Returns the filter of a profile. A filter that cannot be cached is compiled again next time.
pub(crate) fn filter(root: &Path, bundle: &Bundle, profile: &Profile, log: &Log) -> Result<Filter> {
    let key = [COMPILER, profile.text()].concat();
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let path = root.join(KEPT).join(format!("{:016x}", hasher.finish()));
    // Compares the whole profile, because two profiles may share a hash. The compiler version is compared too: after an
    // update that fixes the compiler, no container may get an old filter.
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

/// Returns the notification agent that a profile names. Few profiles name one, so others are not parsed.
pub(crate) fn listener(bundle: &Bundle, profile: &Profile) -> Result<Option<Listener>> {
    let text = profile.text();
    // JSON may write the name with escapes.
    if !text.contains("listener") && !text.contains('\\') {
        return Ok(None);
    }
    let profile = understood(bundle, profile)?;
    Ok((!profile.listener_path.is_empty()).then(|| Listener {
        path: profile.listener_path.into(),
        metadata: profile.listener_metadata,
    }))
}

/// Parses a profile; errors name the file and field, as for the rest of a bundle.
fn understood(bundle: &Bundle, profile: &Profile) -> Result<Seccomp> {
    json::parse_part(PLACE, profile.text().as_bytes())
        .map_err(|error| error.within(bundle.dir.join(CONFIG).display()))
}

/// Reads a saved filter; `None` if it is broken.
pub(crate) fn read(path: &Path) -> Option<Program> {
    let bytes = orlop_fs::read_file(path, LIMIT).ok()?;
    Program::from_bytes(&bytes).ok()
}

/// Saves a filter.
pub(crate) fn write(path: &Path, filter: &Filter) -> Result<()> {
    orlop_fs::write_file(path, 0o600, Outlives::Kill, &filter.bytes)
        .doing(|| format!("writing {}", path.display()))
}
