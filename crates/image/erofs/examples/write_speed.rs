//! How long it takes to write a layer into an image, and into as many files.
//!
//! `cargo run --release -p orlop-erofs --example write_speed -- DIR` writes both below the directory, several
//! times, and prints the quickest so far. With `--entries N` it writes an image of so many empty files instead,
//! and prints what memory that took.
#![allow(clippy::disallowed_methods, reason = "it reads what the kernel wrote")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use orlop_erofs::{Attributes, Image, Options, Summary, Timestamp};

/// The layer of a usual image with an interpreter and its libraries.
const FILES: usize = 28_000;
const BYTES: usize = 667 << 20;
const FILES_PER_DIRECTORY: usize = 12;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [dir] => compare(Path::new(dir)),
        [dir, option, count] if option == "--entries" => weigh(Path::new(dir), count.parse()?),
        _ => Err("give a directory, and --entries N or nothing".into()),
    }
}

fn compare(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let sizes = sizes();
    let content: Vec<u8> = (0..sizes.iter().max().copied().unwrap_or_default())
        .map(|at| (at % 251) as u8)
        .collect();
    let (image, tree) = (dir.join("write-speed.image"), dir.join("write-speed.tree"));
    let (mut of_image, mut of_files) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let summary = write_image(&image, &sizes, &content)?;
        of_image = of_image.min(begin.elapsed());
        fs::remove_file(&image)?;
        let begin = Instant::now();
        write_files(&tree, &sizes, &content)?;
        of_files = of_files.min(begin.elapsed());
        println!("{summary:?}: image {of_image:?}, files {of_files:?}");
        remove_files(&tree)?;
    }
    Ok(())
}

/// Most are small, and a few have most of the bytes.
fn sizes() -> Vec<usize> {
    let mut state = 1_u64;
    let mut sizes: Vec<usize> = (0..FILES)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (shift, part) = ((state >> 33) % 100, (state >> 40) as usize);
            let limit = match shift {
                0..40 => 2_000,
                40..75 => 12_000,
                75..98 => 60_000,
                _ => 500_000,
            };
            part % limit
        })
        .collect();
    let sum: usize = sizes.iter().sum();
    for size in &mut sizes {
        // The large ones make up what is missing.
        if *size > 60_000 || (sum > BYTES && *size > 12_000) {
            *size = (*size as f64 * BYTES as f64 / sum as f64) as usize;
        }
    }
    let left = BYTES.saturating_sub(sizes.iter().sum());
    let of_each = left / 40;
    for size in sizes.iter_mut().step_by(FILES / 40).take(40) {
        *size += of_each;
    }
    sizes
}

fn attributes(mode: u16) -> Attributes {
    Attributes {
        mode,
        mtime: Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        },
        ..Attributes::default()
    }
}

fn write_image(
    path: &Path,
    sizes: &[usize],
    content: &[u8],
) -> Result<Summary, Box<dyn std::error::Error>> {
    let mut image = Image::create(File::create(path)?, Options::default())?;
    for (index, files) in sizes.chunks(FILES_PER_DIRECTORY).enumerate() {
        let directory = format!("directory-{index}");
        image.directory(&[directory.as_bytes()], attributes(0o755))?;
        for (index, size) in files.iter().enumerate() {
            let name = format!("file-{index}.py");
            let path = [directory.as_bytes(), name.as_bytes()];
            let mut file = image.file(&path, attributes(0o644), *size as u64)?;
            let mut at = 0;
            // As they come out of a decompressor.
            for part in content[..*size].chunks(64 << 10) {
                file.write_at(at, part)?;
                at += part.len() as u64;
            }
            file.finish()?;
        }
    }
    Ok(image.finish()?)
}

/// As an archive is unpacked: each file is made, filled, and given its owner and time.
fn write_files(tree: &Path, sizes: &[usize], content: &[u8]) -> io::Result<()> {
    fs::create_dir(tree)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (index, files) in sizes.chunks(FILES_PER_DIRECTORY).enumerate() {
        let directory = tree.join(format!("directory-{index}"));
        fs::create_dir(&directory)?;
        for (index, size) in files.iter().enumerate() {
            let path = directory.join(format!("file-{index}.py"));
            let mut options = File::options();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(path)?;
            for part in content[..*size].chunks(64 << 10) {
                file.write_all(part)?;
            }
            fchown(&file, Some(0), Some(0))?;
            file.set_modified(time)?;
        }
    }
    Ok(())
}

/// Removes what this made: directories of files.
fn remove_files(tree: &Path) -> io::Result<()> {
    for directory in fs::read_dir(tree)? {
        let directory: PathBuf = directory?.path();
        for file in fs::read_dir(&directory)? {
            fs::remove_file(file?.path())?;
        }
        fs::remove_dir(&directory)?;
    }
    fs::remove_dir(tree)
}

fn weigh(dir: &Path, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let path = dir.join("write-speed.image");
    let before = resident()?;
    let begin = Instant::now();
    let mut image = Image::create(File::create(&path)?, Options::default())?;
    for index in 0..count / 20 {
        let directory = format!("directory-{index}");
        image.directory(&[directory.as_bytes()], attributes(0o755))?;
        for index in 0..19 {
            let name = format!("a-usual-name-{index}.py");
            let path = [directory.as_bytes(), name.as_bytes()];
            image.file(&path, attributes(0o644), 0)?.finish()?;
        }
    }
    let after = resident()?;
    let summary = image.finish()?;
    println!("{summary:?} in {:?}", begin.elapsed());
    println!(
        "{} bytes of memory for each",
        (after - before) * 1024 / count
    );
    fs::remove_file(&path)?;
    Ok(())
}

/// In KiB.
fn resident() -> Result<usize, Box<dyn std::error::Error>> {
    let mut status = String::new();
    io::Read::read_to_string(&mut File::open("/proc/self/status")?, &mut status)?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(value.ok_or("no VmRSS")?.parse()?)
}
