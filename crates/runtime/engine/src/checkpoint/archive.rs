//! The archive of a container's checkpoint: writing a directory as an archive, and reading an untrusted
//! one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use orlop_fs::{Draft, Outlives};
use orlop_image_store::{Limits, plain};
use tar::{Archive, Builder, EntryType, Header};
use tokio_util::sync::CancellationToken;

use super::output::Output;
use super::{FILES, IMAGES};
use crate::error::{Error, Result};

/// Limit of files; CRIU writes fewer for any container.
const MAX_FILES: usize = 1 << 20;

/// Writes the directory into the archive `location`, all of it or nothing, until `stop` is cancelled.
/// Blocks.
pub fn write(dir: &Path, location: &Path, stop: &CancellationToken) -> Result<()> {
    let failed = |error| Error::io(format!("writing {}", location.display()))(error);
    let write = || {
        // The archive contains the memory of the container.
        let draft = Draft::of(location, 0o600)?;
        write_to(dir, draft.file(), stop)?;
        draft.keep(Outlives::Kill)
    };
    write().map_err(failed).map_err(Into::into)
}

fn write_to(dir: &Path, file: &File, stop: &CancellationToken) -> io::Result<()> {
    let output = Output::new(file, stop);
    let mut builder = Builder::new(io::BufWriter::with_capacity(1 << 20, output));
    for name in FILES {
        append(&mut builder, &dir.join(name), Path::new(name))?;
    }
    let images = dir.join(IMAGES);
    let mut names: Vec<OsString> = std::fs::read_dir(&images)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>()?;
    names.sort();
    directory(&mut builder, IMAGES)?;
    for name in names {
        append(
            &mut builder,
            &images.join(&name),
            &Path::new(IMAGES).join(&name),
        )?;
    }
    builder.into_inner()?.flush()?;
    // The caller may turn the machine off once it has the archive.
    file.sync_all()
}

fn directory(builder: &mut Builder<impl io::Write>, name: &str) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    header.set_mode(0o700);
    header.set_size(0);
    builder.append_data(&mut header, format!("{name}/"), io::empty())
}

fn append(builder: &mut Builder<impl io::Write>, path: &Path, name: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        // Not every version of CRIU writes all files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let look = file.metadata()?;
    if !look.is_file() {
        return Ok(());
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(look.len());
    builder.append_data(&mut header, name, file.take(look.len()))
}

/// Reads an archive into the new directory `dir`. Files that do not belong to a checkpoint are ignored.
/// Blocks.
pub fn read(location: &Path, dir: &Path, limits: &Limits) -> Result<()> {
    let what = location.display().to_string();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(location)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NotFound {
                what: "checkpoint",
                id: what.clone(),
            },
            _ => Error::io(format!("opening the checkpoint {what}"))(error),
        })?;
    let look = file.metadata();
    if !look.is_ok_and(|look| look.is_file()) {
        let problem = format!("the checkpoint {what} is not a regular file");
        return Err(Error::Precondition(problem).into());
    }
    let plain = plain(&what, file).map_err(|source| Error::Image {
        doing: "reading a checkpoint".to_owned(),
        source,
    })?;
    make_images_dir(dir)?;
    extract(plain, dir, limits).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => Error::io(format!("unpacking {what}"))(error).into(),
        _ => Error::Precondition(format!("{what} is not a checkpoint archive: {error}")).into(),
    })
}

/// Makes the directory of CRIU's images.
pub fn make_images_dir(dir: &Path) -> Result<()> {
    let images = dir.join(IMAGES);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&images)
        .map_err(Error::io(format!("creating {}", images.display())))
        .map_err(Into::into)
}

fn extract(plain: impl Read, dir: &Path, limits: &Limits) -> io::Result<()> {
    let mut left = limits.layer_bytes;
    let mut archive = Archive::new(plain);
    for (count, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        if count >= MAX_FILES {
            return Err(io::Error::other(format!(
                "it has more than {MAX_FILES} files"
            )));
        }
        let Some(name) = belongs(&entry.path()?) else {
            continue;
        };
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        left = left.checked_sub(entry.size()).ok_or_else(|| {
            io::Error::other(format!("it is larger than {} bytes", limits.layer_bytes))
        })?;
        let mut file = new_file(&dir.join(name))?;
        io::copy(&mut entry, &mut file)?;
    }
    Ok(())
}

/// Creates a file of a checkpoint; a second one of the same name is an error.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Returns the name of a file that belongs to a checkpoint: a known file, or one directly in CRIU's
/// directory.
fn belongs(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components().filter(|part| *part != Component::CurDir);
    let Some(Component::Normal(first)) = parts.next() else {
        return None;
    };
    match (parts.next(), parts.next()) {
        (None, None) => {
            let known = FILES.iter().any(|name| first == *name);
            known.then(|| PathBuf::from(first))
        }
        (Some(Component::Normal(name)), None) if first == IMAGES => {
            Some(Path::new(IMAGES).join(name))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::checkpoint::{CONFIG_DUMP, SPEC_DUMP};

    fn scene() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        make_images_dir(&from).unwrap();
        fs::write(from.join(CONFIG_DUMP), "{}").unwrap();
        fs::write(from.join(IMAGES).join("pages-1.img"), vec![1; 9000]).unwrap();
        (dir, from)
    }

    #[test]
    fn an_archive_is_read_as_it_was_written() {
        let (dir, from) = scene();
        let (location, to) = (dir.path().join("a.tar"), dir.path().join("to"));
        write(&from, &location, &CancellationToken::new()).unwrap();
        // Over an older one, too.
        write(&from, &location, &CancellationToken::new()).unwrap();
        let names = fs::read_dir(dir.path()).unwrap();
        assert_eq!(names.count(), 2, "nothing beside it");
        read(&location, &to, &Limits::default()).unwrap();
        assert_eq!(fs::read(to.join(CONFIG_DUMP)).unwrap(), b"{}");
        let pages = fs::read(to.join("checkpoint/pages-1.img")).unwrap();
        assert_eq!(pages, vec![1; 9000]);
    }

    /// No archive writes anything outside the directory.
    #[test]
    fn fuzzed_archives_write_nothing_outside_their_directory() {
        let (scene, from) = scene();
        let location = scene.path().join("a.tar");
        write(&from, &location, &CancellationToken::new()).unwrap();
        let example = fs::read(&location).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (archive, to) = (dir.path().join("a.tar"), dir.path().join("to"));
        orlop_testkit::Fuzz::new()
            .example(example)
            .words([
                "../",
                "/etc/",
                "checkpoint/",
                "config.dump",
                "\0",
                "7777777",
                "ustar",
            ])
            .repair(|archive, _| orlop_testkit::mutation::mend_tar_checksums(archive))
            .run(|input| {
                fs::write(&archive, input).unwrap();
                let _ = read(&archive, &to, &Limits::default());
                let beside = fs::read_dir(dir.path()).unwrap().count();
                assert!(beside <= 2, "{beside} things are there");
                let _ = orlop_fs::remove_tree(&to);
            });
    }

    #[test]
    fn a_hostile_archive_writes_nothing_but_what_belongs() {
        let dir = tempfile::tempdir().unwrap();
        let location = dir.path().join("a.tar");
        let mut builder = Builder::new(File::create(&location).unwrap());
        let mut add = |name: &str, kind: EntryType| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o6777);
            header.set_size(if kind == EntryType::Regular { 3 } else { 0 });
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            if kind == EntryType::Symlink {
                header.set_link_name("/etc").unwrap();
            }
            header.set_cksum();
            let content = if kind == EntryType::Regular {
                &b"bad"[..]
            } else {
                &[]
            };
            builder.append(&header, content).unwrap();
        };
        add("../outside", EntryType::Regular);
        add("/config.dump", EntryType::Regular);
        add("checkpoint/../../outside", EntryType::Regular);
        add("checkpoint/deep/er", EntryType::Regular);
        add("checkpoint/link", EntryType::Symlink);
        add("spec.dump", EntryType::Symlink);
        add("unknown", EntryType::Regular);
        add("checkpoint/inventory.img", EntryType::Regular);
        builder.into_inner().unwrap();
        let to = dir.path().join("to");
        read(&location, &to, &Limits::default()).unwrap();
        let mut found: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .chain(fs::read_dir(to.join(IMAGES)).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, ["checkpoint", "inventory.img"]);
        assert!(!to.join(SPEC_DUMP).exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_no_archive_or_too_large_is_told() {
        let (dir, from) = scene();
        let location = dir.path().join("a.tar");
        fs::write(&location, "no archive at all").unwrap();
        let all = Limits::default();
        let error = read(&location, &dir.path().join("1"), &all).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a.tar is not a checkpoint archive"),
            "{error}"
        );
        write(&from, &location, &CancellationToken::new()).unwrap();
        let few = Limits {
            layer_bytes: 100,
            ..Limits::default()
        };
        let error = read(&location, &dir.path().join("2"), &few).unwrap_err();
        assert!(
            error.to_string().contains("larger than 100 bytes"),
            "{error}"
        );
        let error = read(dir.path(), &dir.path().join("3"), &all).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
