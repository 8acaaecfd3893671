//! The file that has the names of a module's functions.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::elf::{Elf, Symbols, Table};
use crate::unwind::Module;

/// Where packages put what was stripped from programs, by build id.
const DEBUG: &str = "/usr/lib/debug";

/// Whose modules they are.
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) pid: u32,
    pub(super) program: &'a Path,
}

/// The functions of a module: of its own file, of one that was put aside when it was stripped, or those
/// that it offers to others.
pub(super) fn symbols(module: &Module, process: &Process<'_>) -> Option<Symbols> {
    let own = || own(module, process).into_iter();
    let aside = aside(module, process.program).into_iter();
    own()
        .chain(aside)
        .find_map(|path| of(&path, &module.build_id, Table::All))
        .or_else(|| own().find_map(|path| of(&path, &module.build_id, Table::Offered)))
}

/// The functions in a file that somebody named.
pub(super) fn named(path: &Path, module: &Module) -> Result<Symbols, Error> {
    let wrong = |why: String| Error::Symbols {
        path: path.to_owned(),
        why,
    };
    let file = orlop_disk::open_file(path).map_err(|error| wrong(error.to_string()))?;
    let elf = Elf::of(&file).ok_or_else(|| wrong("it is no ELF file of this machine's".into()))?;
    let id = elf.build_id(&file, None).unwrap_or_default();
    if id != module.build_id {
        return Err(wrong(format!(
            "its build id is {}, the program's is {}",
            shown(&id),
            shown(&module.build_id)
        )));
    }
    elf.symbols(&file, Table::All)
        .ok_or_else(|| wrong("it is stripped".into()))
}

/// A build id as tools print it.
pub(super) fn shown(id: &[u8]) -> String {
    if id.is_empty() {
        "none".into()
    } else {
        orlop_hex::encode(id)
    }
}

fn of(path: &Path, build_id: &[u8], which: Table) -> Option<Symbols> {
    let file: File = orlop_disk::open_file(path).ok()?;
    let elf = Elf::of(&file)?;
    // Another version may have taken its place.
    (elf.build_id(&file, None).unwrap_or_default() == build_id).then_some(())?;
    elf.symbols(&file, which)
}

/// Where a module's file is to be found: the kernel has it, although it may be deleted or in another
/// mount namespace.
fn own(module: &Module, process: &Process<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if !module.path.is_absolute() {
        return paths;
    }
    let pid = process.pid;
    if is(&module.path, process.program) {
        paths.push(format!("/proc/{pid}/exe").into());
    }
    let mut seen = PathBuf::from(format!("/proc/{pid}/root"));
    seen.push(module.path.strip_prefix("/").unwrap_or(&module.path));
    paths.push(seen);
    paths.push(module.path.clone());
    paths
}

/// Where its names may have been put: `PREFIX/lib/debug/.build-id/ab/cdef….debug`, and that of the system.
fn aside(module: &Module, program: &Path) -> Vec<PathBuf> {
    let id = shown(&module.build_id);
    let Some((first, rest)) = id.split_at_checked(2).filter(|(_, rest)| rest.len() > 6) else {
        return Vec::new();
    };
    let name = format!(".build-id/{first}/{rest}.debug");
    let mut paths = Vec::new();
    if let Some(prefix) = program.parent().and_then(Path::parent) {
        paths.push(prefix.join("lib/debug").join(&name));
    }
    paths.push(Path::new(DEBUG).join(&name));
    paths
}

/// What the kernel says of a program that is deleted has a mark at its end.
pub(super) fn is(module: &Path, program: &Path) -> bool {
    let program = program.to_string_lossy();
    Path::new(program.strip_suffix(" (deleted)").unwrap_or(&program)) == module
}
