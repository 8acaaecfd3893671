//! Writing a running container out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use orlop_disk::Outlives;

use super::external::{tell_mounts, tell_namespaces};
use super::quote::quote;
use super::request::{Kind, Opts};
use super::session::{Notice, Session, require};
use super::{DESCRIPTORS, Options};
use crate::bundle::Bundle;
use crate::error::{Error, Result, While};
use crate::log::Log;
use crate::state::State;

const LOG_FILE: &str = "dump.log";

/// What CRIU and the kernel have to be able to do, by the number in CRIU's answer.
const MEM_TRACK: u32 = 1;
const LAZY_PAGES: u32 = 2;

/// Has CRIU write a container out. What ends by it is ended when this returns.
pub(crate) fn dump(state: &State, bundle: &Bundle, options: &Options, log: &Log) -> Result<()> {
    let linux = bundle.linux()?;
    let images = directory(&options.images)?;
    let work = options.work.as_deref().map(directory).transpose()?;
    let annotations = &state.annotations;
    let mut opts = Opts::new(options, LOG_FILE, annotations);
    opts.directories(images.as_raw_fd(), work.as_ref().map(AsRawFd::as_raw_fd));
    let rootfs = &state.rootfs;
    let rootfs = rootfs.canonicalize().unwrap_or_else(|_| rootfs.clone());
    opts.0.text(13, &rootfs.to_string_lossy());
    opts.0.int(2, state.pid);
    opts.0.flag(3, options.leave_running);
    opts.0.flag(46, options.tcp_skip_in_flight);
    opts.0.flag(18, options.link_remap);
    tell_namespaces(&mut opts, linux)?;
    if let Some(freezer) = state.cgroup.freezer() {
        opts.0.text(44, &freezer.to_string_lossy());
    }
    if let Some((address, port)) = &options.page_server {
        opts.0.message(11, |server| {
            server.text(1, address);
            server.int(2, *port);
        });
    }
    if let Some(parent) = &options.parent {
        opts.0.text(14, parent);
        opts.0.flag(15, true);
    }
    let kind = if options.pre_dump {
        require(MEM_TRACK, "MemTrack")?;
        Kind::PRE_DUMP
    } else {
        tell_mounts(&mut opts, bundle, &state.cgroup, state.pid)?;
        write_descriptors(&options.images, &state.descriptors)?;
        Kind::DUMP
    };
    let mut status = Status::of(options)?;
    let session = Session::start()?;
    let done = ask(session, &opts.request(kind), kind, &mut status);
    done.map_err(|error| {
        let file = options.log_dir().join(LOG_FILE);
        quote(log, &file);
        Error::new(format!("{error}; log file: {}", file.display()))
    })
}

fn ask(session: Session, request: &[u8], kind: Kind, status: &mut Status) -> Result<()> {
    session.ask(request, &mut |notice| {
        status.notice(&notice);
        Ok(())
    })?;
    let code = session.end()?;
    // After a dump of memory alone it waits for the next, and is told that there is none.
    if code != 0 && kind != Kind::PRE_DUMP {
        return Err(Error::new(format!("criu failed: exit status {code}")));
    }
    Ok(())
}

/// Who waits until pages can be fetched.
struct Status(Option<File>);

impl Status {
    fn of(options: &Options) -> Result<Self> {
        if !options.lazy_pages {
            return Ok(Self(None));
        }
        require(LAZY_PAGES, "LazyPages")?;
        let Some(fd) = options.status_fd else {
            return Ok(Self(None));
        };
        let opened = OpenOptions::new()
            .write(true)
            .open(format!("/proc/self/fd/{fd}"));
        let opened = opened.doing(|| format!("invalid --status-fd argument {fd}"))?;
        Ok(Self(Some(opened)))
    }

    fn notice(&mut self, notice: &Notice) {
        if notice.name == "status-ready"
            && let Some(mut file) = self.0.take()
        {
            // Whoever has stopped waiting is no reason to stop.
            let _ = file.write_all(&[0]);
        }
    }
}

/// Opens a directory, which is made where it is missing.
pub(crate) fn directory(path: &Path) -> Result<OwnedFd> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.and_then(|()| File::open(path))
        .doing(|| path.display().to_string())
        .map(OwnedFd::from)
}

/// Writes down what the standard streams were, so that pipes can be given in their places.
fn write_descriptors(images: &Path, descriptors: &[String]) -> Result<()> {
    let text = serde_json::to_vec(descriptors).doing(|| DESCRIPTORS.to_owned())?;
    let path = images.join(DESCRIPTORS);
    orlop_disk::write_file(&path, 0o600, Outlives::Kill, &text)
        .doing(|| format!("writing {}", path.display()))
}
