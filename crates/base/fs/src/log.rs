//! Container logs, in directories that containers may be able to write to.
//!
//! A pod that mounts its log directory, or all of them, can replace a log, its directory or a rotated part with a
//! symlink. Code that reads, writes or removes logs as root uses this module: it follows no symlink, and touches only
//! regular files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2,
    readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// The maximum number of parts of one log: rotation leaves a handful.
const MAX_PARTS: usize = 4096;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// A fifo must not block the open, nor a terminal become the controlling one.
const FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The location of a log: its open directory, and its name.
#[derive(Debug)]
pub struct LogPlace {
    dir: OwnedFd,
    name: OsString,
}

impl LogPlace {
    /// Opens the location of a log whose directory exists.
    pub fn find(log: &Path) -> Result<Self> {
        let way = Way::to(log)?;
        let top = openat(CWD, &way.top, DIRECTORY, Mode::empty())?;
        let dir = if way.below.as_os_str().is_empty() {
            top
        } else {
            open_below(&top, &way.below).map_err(|error| way.explain(error))?
        };
        Ok(Self {
            dir,
            name: way.name,
        })
    }

    /// Opens the location of a log, and creates missing directories.
    pub fn make(log: &Path) -> Result<Self> {
        let way = Way::to(log)?;
        Ok(Self {
            dir: way.make()?,
            name: way.name,
        })
    }

    /// Opens the log for reading and appending, and creates it if needed.
    pub fn append(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        self.open_as(&self.name, flags)
    }

    /// Opens the log of a container for reading.
    ///
    /// A symlink in its place is followed only if Docker's own tools could have made it: to the engine's file for this
    /// container, `<id>/<id>-json.log`, with no other symlink in the path.
    pub fn read(&self, id: &str) -> Result<File> {
        match self.read_part(&self.name) {
            Err(error) if is_link(&error) => {}
            opened => return opened,
        }
        let target = readlinkat(&self.dir, &*self.name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if !is_engines_log(&target, id) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the log is a symbolic link that does not point to Docker's log of the container",
            ));
        }
        let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(CWD, &target, OFlags::RDONLY | FILE, Mode::empty(), links)?;
        regular(file)
    }

    /// Opens a part of the log for reading.
    pub fn read_part(&self, name: &OsStr) -> Result<File> {
        self.open_as(name, OFlags::RDONLY)
    }

    /// Creates a new part.
    pub fn create_part(&self, name: &OsStr) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open_as(name, flags)
    }

    /// Returns the log's size; `None` if it is not a regular file.
    pub fn size(&self) -> Result<Option<u64>> {
        let stat = statat(&self.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file.then_some(u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Returns whether the log, or another file in its place, exists.
    pub fn exists(&self) -> bool {
        statat(&self.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the name of the log.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the name of the log with a suffix.
    pub fn suffixed(&self, suffix: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }

    /// Returns the regular files beside the log whose names extend its name, sorted by name.
    pub fn parts(&self) -> Result<Vec<OsString>> {
        let prefix = self.suffixed(".");
        let mut parts = self.names(|name| name.as_bytes().starts_with(prefix.as_bytes()))?;
        parts.sort();
        Ok(parts)
    }

    /// Returns the regular files in the log's directory that `which` accepts, unsorted.
    pub fn names(&self, which: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !which(name) {
                continue;
            }
            let stat = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                names.push(name.to_owned());
                if names.len() == MAX_PARTS {
                    break;
                }
            }
        }
        Ok(names)
    }

    /// Renames a file in the directory.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<()> {
        Ok(renameat(&self.dir, from, &self.dir, to)?)
    }

    /// Removes a file, or a symlink itself, from the directory.
    pub fn remove(&self, name: &OsStr) -> Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn open_as(&self, name: &OsStr, flags: OFlags) -> Result<File> {
        let mode = if flags.contains(OFlags::EXCL) {
            0o644
        } else {
            0o640
        };
        match openat(&self.dir, name, flags | FILE, Mode::from_raw_mode(mode)) {
            Ok(file) => regular(file),
            // A fifo without a reader.
            Err(Errno::NXIO | Errno::ISDIR) => Err(no_file()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Creates missing directories of a log. `chosen` may be a symlink. Below it pods may be able to write, so no symlink
/// is followed there.
pub fn make_log_dir(chosen: &Path, log: &Path) -> Result<()> {
    let dir = log.parent().unwrap_or(chosen);
    let way = Way {
        top: chosen.to_owned(),
        below: dir.strip_prefix(chosen).unwrap_or(dir).to_owned(),
        name: OsString::new(),
    };
    way.make().map(drop)
}

/// The path to a log's directory.
struct Way {
    /// The administrator's part, in which symlinks are followed.
    top: PathBuf,
    /// The part that must contain no symlink.
    below: PathBuf,
    name: OsString,
}

impl Way {
    /// Splits the path of a log. The kubelet's logs are `<pod's directory>/<container>/<number>.log`, and pods can
    /// write to both directories. For other logs, only the log itself may be untrusted.
    fn to(log: &Path) -> Result<Self> {
        let (Some(dir), Some(name)) = (log.parent(), log.file_name()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "not a file path"));
        };
        let numbered = name.as_bytes().strip_suffix(b".log");
        let is_kubelets = numbered
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        let top = dir.parent().and_then(Path::parent);
        let (top, below) = match top.filter(|_| is_kubelets) {
            Some(top) => (top, dir.strip_prefix(top).unwrap_or(dir)),
            None => (dir, Path::new("")),
        };
        let top = if top.as_os_str().is_empty() {
            Path::new(".")
        } else {
            top
        };
        Ok(Self {
            top: top.to_owned(),
            below: below.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Creates missing directories, and opens the last one.
    fn make(&self) -> Result<OwnedFd> {
        std::fs::create_dir_all(&self.top)?;
        let mut dir = openat(CWD, &self.top, DIRECTORY, Mode::empty())?;
        for part in self.below.components() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(Errno::INVAL.into()),
            };
            match mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            dir = open_below(&dir, Path::new(name)).map_err(|error| self.explain(error))?;
        }
        Ok(dir)
    }

    fn explain(&self, error: Errno) -> Error {
        if error == Errno::LOOP {
            let (below, top) = (self.below.display(), self.top.display());
            let why = format!(
                "the path {below} below {top} contains a symbolic link; links are not followed \
                 there"
            );
            return Error::new(ErrorKind::InvalidInput, why);
        }
        error.into()
    }
}

fn open_below(top: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(top, below, DIRECTORY, Mode::empty(), beneath)
}

fn regular(file: OwnedFd) -> Result<File> {
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(no_file());
    }
    Ok(File::from(file))
}

fn no_file() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the path exists and is not a regular file",
    )
}

fn is_link(error: &Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn is_engines_log(path: &Path, id: &str) -> bool {
    let dir = path.parent().and_then(Path::file_name);
    let name = path.file_name().and_then(OsStr::to_str);
    !id.is_empty()
        && path.is_absolute()
        && dir == Some(OsStr::new(id))
        && name.and_then(|name| name.strip_suffix("-json.log")) == Some(id)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;

    use super::*;

    /// Returns a node with a file that no pod may touch, and the path of a log.
    fn node() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("outside/0.log");
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(&secret, "secret").unwrap();
        let log = dir.path().join("pods/ns_pod_uid/app/0.log");
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        (dir, secret, log)
    }

    #[test]
    fn a_link_in_a_log_s_place_is_neither_written_nor_read() {
        let (_dir, secret, log) = node();
        symlink(&secret, &log).unwrap();
        let place = LogPlace::find(&log).unwrap();
        assert!(place.append().is_err());
        assert!(place.read("0123abcd").is_err());
        assert_eq!(place.size().unwrap(), None);
        place.remove(place.name()).unwrap();
        assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    }

    #[test]
    fn a_link_in_the_place_of_a_container_s_or_a_pod_s_directory_leads_nowhere() {
        let (dir, secret, log) = node();
        let own = log.parent().unwrap();
        fs::remove_dir(own).unwrap();
        symlink(secret.parent().unwrap(), own).unwrap();
        for error in [LogPlace::find(&log), LogPlace::make(&log)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("contains a symbolic link"), "{error}");
        }
        let pod = own.parent().unwrap();
        fs::remove_file(own).unwrap();
        fs::remove_dir(pod).unwrap();
        symlink(dir.path().join("outside"), pod).unwrap();
        assert!(LogPlace::make(&log).is_err());
        assert!(!dir.path().join("outside/app").exists());
    }

    #[test]
    fn links_above_the_pods_directories_are_the_administrator_s() {
        let (dir, _, log) = node();
        let link = dir.path().join("link");
        symlink(dir.path().join("pods"), &link).unwrap();
        let place = LogPlace::make(&link.join("ns_pod_uid/app/0.log")).unwrap();
        place.append().unwrap().write_all(b"words").unwrap();
        assert_eq!(fs::read_to_string(log).unwrap(), "words");
        // A caller that uses other names has chosen the directories, too.
        let own = LogPlace::make(&link.join("mine.log")).unwrap();
        own.append().unwrap();
        assert!(dir.path().join("pods/mine.log").is_file());
    }

    #[test]
    fn a_fifo_or_a_directory_in_a_log_s_place_is_refused_at_once() {
        let (_dir, _, log) = node();
        let place = LogPlace::find(&log).unwrap();
        mknodat(CWD, &log, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(place.append().is_err() && place.read("id").is_err());
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        assert!(place.append().is_err() && place.read("id").is_err());
    }

    #[test]
    fn only_the_engine_s_own_log_of_the_container_is_followed_to() {
        let (dir, secret, log) = node();
        let id = "0123456789abcdef";
        let engine = dir.path().join("docker/containers").join(id);
        fs::create_dir_all(&engine).unwrap();
        let json = engine.join(format!("{id}-json.log"));
        fs::write(&json, "line").unwrap();
        symlink(&json, &log).unwrap();
        let place = LogPlace::find(&log).unwrap();
        let mut text = String::new();
        let mut read = place.read(id).unwrap();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "line");
        assert!(place.read("fedcba9876543210").is_err(), "another's");
        assert!(place.read("").is_err(), "nobody's");
        fs::remove_file(&json).unwrap();
        symlink(&secret, &json).unwrap();
        assert!(place.read(id).is_err(), "a link behind the link");
    }

    #[test]
    fn parts_are_files_only() {
        let (_dir, secret, log) = node();
        let place = LogPlace::find(&log).unwrap();
        for name in ["0.log", "0.log.2", "0.log.1", "00.log", "1.log"] {
            fs::write(log.with_file_name(name), "").unwrap();
        }
        symlink(&secret, log.with_file_name("0.log.3")).unwrap();
        fs::create_dir(log.with_file_name("0.log.4")).unwrap();
        assert_eq!(place.parts().unwrap(), ["0.log.1", "0.log.2"]);
        assert!(place.read_part(OsStr::new("0.log.3")).is_err());
        assert!(place.create_part(OsStr::new("0.log.3")).is_err());
    }

    #[test]
    fn no_directory_for_logs_is_made_behind_a_pod_s_link() {
        let dir = tempfile::tempdir().unwrap();
        let (chosen, foreign) = (dir.path().join("chosen"), dir.path().join("foreign"));
        make_log_dir(&chosen, &chosen.join("one/two/0.log")).unwrap();
        assert!(chosen.join("one/two").is_dir());
        make_log_dir(&chosen, &chosen.join("0.log")).unwrap();

        fs::create_dir(&foreign).unwrap();
        symlink(&foreign, chosen.join("fake")).unwrap();
        make_log_dir(&chosen, &chosen.join("fake/two/0.log")).unwrap_err();
        assert!(fs::read_dir(foreign).unwrap().next().is_none());
    }
}
