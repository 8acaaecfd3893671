//! The file that has the names of a module's functions.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{io, iter};

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

impl Process<'_> {
    /// Opens a file where the process sees it. A path of this node leads to it only where both see the
    /// same mounts: elsewhere it is the process's word for something else, devices among it.
    fn open(&self, path: &Path) -> io::Result<File> {
        if self.sees_our_mounts() {
            orlop_disk::open_file(path)
        } else {
            orlop_disk::open_file_in_root(Path::new(&format!("/proc/{}/root", self.pid)), path)
        }
    }

    fn sees_our_mounts(&self) -> bool {
        let space = |of: &str| {
            let space = std::fs::metadata(format!("/proc/{of}/ns/mnt")).ok()?;
            Some((space.dev(), space.ino()))
        };
        let theirs = space(&self.pid.to_string());
        theirs.is_some() && theirs == space("self")
    }
}

/// The functions of a module: of its own file, of one that was put aside when it was stripped, or those
/// that it offers to others.
pub(super) fn symbols(module: &Module, process: &Process<'_>, left: &mut u64) -> Option<Symbols> {
    if !module.path.is_absolute() {
        return None;
    }
    let own = own(module, process);
    let mut of = |file: &File, which| of(file, &module.build_id, which, left);
    own.iter()
        .find_map(|file| of(file, Table::All))
        .or_else(|| aside(module, process).find_map(|file| of(&file, Table::All)))
        .or_else(|| own.iter().find_map(|file| of(file, Table::Offered)))
}

/// The functions in a file that somebody named.
pub(super) fn named(path: &Path, module: &Module, left: &mut u64) -> Result<Symbols, Error> {
    let wrong = |why: String| Error::Symbols {
        path: path.to_owned(),
        why,
    };
    let file = orlop_disk::open_file(path).map_err(|error| wrong(error.to_string()))?;
    let elf =
        Elf::of(&file).ok_or_else(|| wrong("it is not an ELF file for this machine".into()))?;
    let id = elf.build_id(&file, None).unwrap_or_default();
    if id != module.build_id {
        return Err(wrong(format!(
            "its build ID is {}, but the program has {}",
            shown(&id),
            shown(&module.build_id)
        )));
    }
    elf.symbols(&file, Table::All, left)
        .ok_or_else(|| wrong("it is stripped or too large".into()))
}

/// A build id as tools print it.
pub(super) fn shown(id: &[u8]) -> String {
    if id.is_empty() {
        "none".into()
    } else {
        orlop_hex::encode(id)
    }
}

fn of(file: &File, build_id: &[u8], which: Table, left: &mut u64) -> Option<Symbols> {
    let elf = Elf::of(file)?;
    // Another version may have taken its place.
    (elf.build_id(file, None).unwrap_or_default() == build_id).then_some(())?;
    elf.symbols(file, which, left)
}

/// A module's file. The kernel has the very one that is mapped, although it may be deleted; who may not
/// ask it for that one looks for its path.
fn own(module: &Module, process: &Process<'_>) -> Vec<File> {
    let pid = process.pid;
    let (start, end) = (module.start, module.end);
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let program = is(&module.path, process.program).then(|| format!("/proc/{pid}/exe").into());
    let kept = iter::once(mapped).chain(program);
    let mut files: Vec<File> = kept
        .filter_map(|path| orlop_disk::open_file(&path).ok())
        .collect();
    if files.is_empty() {
        files.extend(process.open(&module.path));
    }
    files
}

/// Files where its names may have been put: `PREFIX/lib/debug/.build-id/ab/cdef….debug`, and that of the
/// system.
fn aside(module: &Module, process: &Process<'_>) -> impl Iterator<Item = File> {
    let id = shown(&module.build_id);
    let parts = id.split_at_checked(2).filter(|(_, rest)| rest.len() > 6);
    let name = parts.map(|(first, rest)| format!(".build-id/{first}/{rest}.debug"));
    let prefix = process.program.parent().and_then(Path::parent);
    let beside = prefix.zip(name.as_ref());
    let beside = beside.and_then(|(prefix, name)| {
        let path = prefix.join("lib/debug").join(name);
        process.open(&path).ok()
    });
    let system = name.and_then(|name| orlop_disk::open_file(&Path::new(DEBUG).join(name)).ok());
    beside.into_iter().chain(system)
}

/// What the kernel says of a program that is deleted has a mark at its end.
pub(super) fn is(module: &Path, program: &Path) -> bool {
    let program = program.to_string_lossy();
    Path::new(program.strip_suffix(" (deleted)").unwrap_or(&program)) == module
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_a_process_in_other_mounts_calls_its_file_is_not_looked_for_in_ours() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, "ours").unwrap();
        let script = "mount -t tmpfs none $0 && printf theirs > $0/program && exec sleep 60";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(dir.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process {
            pid: child.id(),
            program: Path::new("/usr/bin/sleep"),
        };
        let read = || orlop_disk::read_whole(process.open(&file).ok()?, 9).ok();
        let since = Instant::now();
        let is_late = || since.elapsed() > Duration::from_secs(20);
        while read().as_deref() != Some(b"theirs") && !is_late() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let theirs = read();
        let inside = format!("/proc/{}/root{}", child.id(), file.display());
        let removed = std::fs::remove_file(inside);
        let missing = process.open(&file).map_err(|error| error.kind());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(theirs.as_deref(), Some(&b"theirs"[..]));
        removed.unwrap();
        assert_eq!(missing.unwrap_err(), io::ErrorKind::NotFound);
        let us = Process {
            pid: std::process::id(),
            ..process
        };
        assert!(us.open(&file).is_ok());
    }
}
