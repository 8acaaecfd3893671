//! Writes whole files atomically.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::process::geteuid;

/// The event that a written file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlives {
    /// A kill of the process at any moment. The call does not wait for the disk; after a power cut the old file may be
    /// back, or the file may be empty.
    Kill,
    /// A power cut after the call has returned.
    PowerCut,
}

/// The suffix of incomplete files.
const DRAFT: &str = ".new";

/// Replaces the file at a path atomically: readers see the old file or the new one, even after a crash. Only one writer
/// may write a path at a time.
pub fn write_file(path: &Path, mode: u32, outlives: Outlives, content: &[u8]) -> Result<()> {
    let draft = Draft::of(path, mode)?;
    draft.file().write_all(content)?;
    draft.keep(outlives)
}

/// Writes the output of a command to the path that a user named. See [`Output`].
pub fn write_output(path: &Path, mode: u32, content: &[u8]) -> Result<()> {
    let output = Output::of(path, mode)?;
    output.file().write_all(content)?;
    output.keep()
}

/// The output of a command, at a path that a user named. A device, FIFO or socket at that path is opened and
/// never replaced; a regular file is replaced when its successor is complete.
#[derive(Debug)]
pub enum Output<'a> {
    /// A file that replaces the one at the path when it is complete.
    Draft(Draft<'a>),
    /// A device, FIFO or socket.
    Opened(File),
}

impl<'a> Output<'a> {
    /// Opens the output at a path; a new file gets this mode.
    pub fn of(path: &'a Path, mode: u32) -> Result<Self> {
        if !takes_output(path) {
            return Draft::of(path, mode).map(Self::Draft);
        }
        let mut options = OpenOptions::new();
        options
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed());
        options.open(path).map(Self::Opened)
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        match self {
            Self::Draft(draft) => draft.file(),
            Self::Opened(file) => file,
        }
    }

    /// Gives a complete file its name.
    pub fn keep(self) -> Result<()> {
        match self {
            Self::Draft(draft) => draft.keep(Outlives::Kill),
            Self::Opened(_) => Ok(()),
        }
    }
}

/// Returns whether the path is an existing file that is not regular. Symlinks of other users are not followed.
fn takes_output(path: &Path) -> bool {
    let Ok(here) = fs::symlink_metadata(path) else {
        return false;
    };
    let is_ours = here.uid() == 0 || here.uid() == geteuid().as_raw();
    if here.is_symlink() && !is_ours {
        return false;
    }
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Writes a new file; it is an error if the path exists.
pub fn write_new_file(path: &Path, mode: u32, outlives: Outlives, content: &[u8]) -> Result<()> {
    let draft = Draft::of(path, mode)?;
    draft.file().write_all(content)?;
    draft.put(RenameFlags::NOREPLACE, outlives)
}

/// Removes the drafts of killed processes in a directory without active writers.
pub fn remove_drafts(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().ends_with(DRAFT.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A file that is being written and gets its name when it is complete; dropping it earlier removes it.
#[derive(Debug)]
pub struct Draft<'a> {
    file: File,
    at: PathBuf,
    path: Cow<'a, Path>,
    kept: bool,
}

impl<'a> Draft<'a> {
    /// Starts a file for this path, in the same directory. Removes an earlier draft left by a crash.
    pub fn of(path: impl Into<Cow<'a, Path>>, mode: u32) -> Result<Self> {
        let path = path.into();
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "not a file path"));
        };
        // Directory listings usually skip names with a leading dot.
        let mut draft = OsString::from(".");
        draft.push(name);
        draft.push(DRAFT);
        let at = dir.join(draft);
        let open = || {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(&at)
        };
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&at)?;
                open()?
            }
            opened => opened?,
        };
        Ok(Self {
            file,
            at,
            path,
            kept: false,
        })
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Replaces the file at its path.
    pub fn keep(self, outlives: Outlives) -> Result<()> {
        self.put(RenameFlags::empty(), outlives)
    }

    fn put(mut self, flags: RenameFlags, outlives: Outlives) -> Result<()> {
        if outlives == Outlives::PowerCut {
            self.file.sync_data()?;
        }
        if flags.is_empty() {
            fs::rename(&self.at, &self.path)?;
        } else {
            renameat_with(CWD, &self.at, CWD, &*self.path, flags)?;
        }
        self.kept = true;
        match outlives {
            Outlives::PowerCut => sync_names(&self.path),
            Outlives::Kill => Ok(()),
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.at);
        }
    }
}

/// Removes a file, durably when this returns. It is no error if it does not exist.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_names(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Syncs a path's directory: only then is a created or removed name durable.
fn sync_names(path: &Path) -> Result<()> {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{FileType, Mode};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_whatever_a_crash_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(dir.path().join(".file.new"), "half").unwrap();
        write_file(&path, 0o600, Outlives::Kill, b"one").unwrap();
        write_file(&path, 0o600, Outlives::PowerCut, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove_file(&path).unwrap();
        remove_file(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_put_in_place_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_file(&path, 0o600, Outlives::Kill, b"one").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_written_to_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, link) = (dir.path().join("fifo"), dir.path().join("link"));
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        symlink(&fifo, &link).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = options.open(&fifo).unwrap();
        for path in [&fifo, &link] {
            write_output(path, 0o600, b"one").unwrap();
            let mut read = [0; 3];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"one");
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(!fs::symlink_metadata(&fifo).unwrap().is_file());
        let (file, linked) = (dir.path().join("file"), dir.path().join("linked"));
        symlink(&file, &linked).unwrap();
        write_output(&file, 0o600, b"two").unwrap();
        write_output(&linked, 0o600, b"three").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read(&linked).unwrap(), b"three");
    }

    #[test]
    fn the_link_of_a_stranger_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/dev/null", &link).unwrap();
        assert!(takes_output(&link));
        if geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
            assert!(!takes_output(&link));
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_new_file(&path, 0o600, Outlives::Kill, b"one").unwrap();
        let error = write_new_file(&path, 0o600, Outlives::Kill, b"two").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_where_a_draft_would_be_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("file"), dir.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(".file.new")).unwrap();
        write_file(&path, 0o600, Outlives::Kill, b"one").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn drafts_of_the_killed_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".a.new", "b.intent.new", "new", "c"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        remove_drafts(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
