//! Names the compiler of filters by its own source, so that filters that another version made are not used.

#![allow(clippy::disallowed_methods, reason = "these files are our own")]

use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files)?;
    files.sort();
    // FNV-1a: the same for the same source on every machine.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in fs::read(file)? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=ORLOP_SECCOMP_COMPILER={hash:016x}");
    Ok(())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true if path.ends_with("tests") => {}
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
