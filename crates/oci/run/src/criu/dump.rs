//! Checkpoints a running container.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use orlop_fs::Outlives;

use super::external::{external_namespaces, tell_mounts};
use super::options::{DESCRIPTORS, Options};
use super::quote::quote;
use super::rpc::{CriuFeatures, CriuOpts, CriuPageServerInfo, CriuReq, CriuReqType};
use super::session::{Notice, Session, require};
use crate::bundle::Bundle;
use crate::error::{Error, Result, While};
use crate::log::Log;
use crate::state::State;

const LOG_FILE: &str = "dump.log";

/// Lets CRIU checkpoint a container. If CRIU stops the container, it has stopped when this returns.
pub(crate) fn dump(state: &State, bundle: &Bundle, options: &Options, log: &Log) -> Result<()> {
    let linux = bundle.linux()?;
    let images = directory(&options.images)?;
    let work = options.work.as_deref().map(directory).transpose()?;
    let rootfs = &state.rootfs;
    let rootfs = rootfs.canonicalize().unwrap_or_else(|_| rootfs.clone());
    let freezer = state.cgroup.freezer();
    let mut opts = CriuOpts {
        images_dir_fd: Some(images.as_raw_fd()),
        work_dir_fd: work.as_ref().map(AsRawFd::as_raw_fd),
        root: Some(rootfs.to_string_lossy().into_owned()),
        pid: Some(state.pid),
        leave_running: Some(options.leave_running),
        tcp_skip_in_flight: Some(options.tcp_skip_in_flight),
        link_remap: Some(options.link_remap),
        external: external_namespaces(linux)?,
        freeze_cgroup: freezer.map(|freezer| freezer.to_string_lossy().into_owned()),
        ps: options
            .page_server
            .clone()
            .map(|(address, port)| CriuPageServerInfo {
                address: Some(address),
                port: Some(port),
            }),
        track_mem: options.parent.is_some().then_some(true),
        parent_img: options.parent.clone(),
        ..CriuOpts::new(options, LOG_FILE, &state.annotations)
    };
    let kind = if options.pre_dump {
        let features = CriuFeatures {
            mem_track: Some(true),
            ..CriuFeatures::default()
        };
        require(features, "MemTrack")?;
        CriuReqType::PreDump
    } else {
        tell_mounts(&mut opts, bundle, &state.cgroup, state.pid)?;
        write_descriptors(&options.images, &state.descriptors)?;
        CriuReqType::Dump
    };
    let mut status = Status::of(options)?;
    let session = Session::start()?;
    let done = ask(session, &opts.request(kind), &mut status);
    done.map_err(|error| {
        let file = options.log_dir().join(LOG_FILE);
        quote(log, &file);
        Error::new(format!("{error}; log file: {}", file.display()))
    })
}

fn ask(session: Session, request: &CriuReq, status: &mut Status) -> Result<()> {
    session.ask(request, &mut |notice| {
        status.notice(&notice);
        Ok(())
    })?;
    let code = session.end()?;
    // After a dump of memory alone CRIU waits for another request and fails because there is none.
    if code != 0 && request.r#type() != CriuReqType::PreDump {
        return Err(Error::new(format!("criu failed: exit status {code}")));
    }
    Ok(())
}

/// The caller that waits until pages can be fetched.
struct Status(Option<File>);

impl Status {
    fn of(options: &Options) -> Result<Self> {
        if !options.lazy_pages {
            return Ok(Self(None));
        }
        let features = CriuFeatures {
            lazy_pages: Some(true),
            ..CriuFeatures::default()
        };
        require(features, "LazyPages")?;
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
            // It is no error if the caller has stopped waiting.
            let _ = file.write_all(&[0]);
        }
    }
}

/// Opens a directory, and creates it if it is missing.
pub(crate) fn directory(path: &Path) -> Result<OwnedFd> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.and_then(|()| File::open(path))
        .doing(|| path.display().to_string())
        .map(OwnedFd::from)
}

/// Records the standard streams, so that pipes can be replaced at restore.
fn write_descriptors(images: &Path, descriptors: &[String]) -> Result<()> {
    let text = serde_json::to_vec(descriptors).doing(|| DESCRIPTORS.to_owned())?;
    let path = images.join(DESCRIPTORS);
    orlop_fs::write_file(&path, 0o600, Outlives::Kill, &text)
        .doing(|| format!("writing {}", path.display()))
}
