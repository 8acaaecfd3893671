//! `Create`: creates a container, or the pod instead of containerd's pause container.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_containerd_api::task::{CreateTaskRequest, CreateTaskResponse};
use orlop_containerd_api::types::Mount;
use orlop_keeper_protocol::{Attach, Create};

use crate::error::{Result, invalid};
use crate::events::Event;
use crate::keeper::{Keeper, LIMIT};
use crate::options::Options;
use crate::owner::Owner;
use crate::place::{Made, checked};
use crate::pod::Wanted;
use crate::rootfs;
use crate::runtime::{self, Runtime};
use crate::shim::Shim;
use crate::spec::Spec;
use crate::stdio::{Opened, Streams};
use crate::tasks::{Checkpoint, Phase, Task};

pub(super) fn call(shim: &Arc<Shim>, request: CreateTaskRequest) -> Result<CreateTaskResponse> {
    let (id, checkpoint) = (request.id, request.checkpoint);
    checked(&id)?;
    let bundle = PathBuf::from(request.bundle);
    if !bundle.is_absolute() {
        return Err(invalid(format!(
            "the bundle path {} is not absolute",
            bundle.display()
        )));
    }
    let streams = Streams {
        terminal: request.terminal,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
    };
    let options = Options::of(request.options.as_ref())?;
    shim.tasks
        .lock()
        .add(&id, Task::making(bundle.clone(), streams.clone()))?;
    let asked = Asked {
        id: &id,
        bundle: &bundle,
        streams: &streams,
        mounts: request.rootfs,
        options: &options,
        checkpoint: &checkpoint,
    };
    let pid = asked.make(shim).inspect_err(|_| {
        shim.forget(&id);
    })?;
    crate::memory::trim();
    shim.publisher.tell(&Event::Create {
        id: &id,
        bundle: &bundle.to_string_lossy(),
        streams: &streams,
        checkpoint: &checkpoint,
        pid,
    });
    Ok(CreateTaskResponse { pid })
}

struct Asked<'a> {
    id: &'a str,
    bundle: &'a Path,
    streams: &'a Streams,
    mounts: Vec<Mount>,
    options: &'a Options,
    checkpoint: &'a str,
}

impl Asked<'_> {
    fn make(&self, shim: &Arc<Shim>) -> Result<u32> {
        let spec = Spec::read(self.bundle)?;
        if spec.is_pause() && self.checkpoint.is_empty() {
            return shim.make_pod(self.id, &Wanted::of(&spec), self.options);
        }
        let keeper = shim.any_keeper()?;
        let runtime = Runtime::of(self.options, &shim.namespace)?;
        let cgroup = shim.cgroup(&spec.linux.cgroups_path, self.options.systemd_cgroup);
        let made = Made {
            bundle: self.bundle.to_owned(),
            runtime: runtime.clone(),
            cgroup: cgroup
                .as_ref()
                .filter(|_| !self.options.systemd_cgroup)
                .map_or_else(String::new, |cgroup| cgroup.path().as_str().to_owned()),
        };
        shim.place.note(self.id, &made)?;
        crate::shared_files::share(shim, self.bundle)?;
        let rootfs = self.bundle.join("rootfs");
        rootfs::mount_all(&self.mounts, &rootfs)?;
        {
            let mut tasks = shim.tasks.lock();
            let task = tasks.get(self.id)?;
            task.mounts = self.mounts.len();
            task.own_processes = spec
                .namespace("pid")
                .is_some_and(|it| it.path.as_os_str().is_empty());
            task.runtime = Some(runtime.clone());
            task.cgroup.clone_from(&cgroup);
            if !self.checkpoint.is_empty() {
                // A restored container runs at once, so it is restored by its start.
                task.checkpoint = Some(Checkpoint {
                    image: self.checkpoint.into(),
                    work: self.options.criu_work_path.clone(),
                });
                task.process.phase = Phase::Created;
                return Ok(0);
            }
        }
        let owner = Owner::of(&shim.namespace, self.id, self.options);
        let created = self.streams.open(owner).and_then(|opened| {
            let pid_file = self.bundle.join("init.pid");
            let request = Create {
                container: self.id.to_owned(),
                call: runtime.create(self.id, self.bundle, &pid_file, self.streams.terminal),
                pid_file,
                tty: self.streams.terminal,
                oom_cgroup: cgroup
                    .and_then(|cgroup| cgroup.directory("memory"))
                    .unwrap_or_default(),
                ..Create::default()
            };
            make(shim, &keeper, request, opened)
        });
        created.inspect_err(|_| {
            made.end_leftover(self.id);
            rootfs::unmount_all(&rootfs, self.mounts.len());
        })
    }
}

/// Makes the keeper create a container with these streams; returns its pid.
pub(super) fn make(
    shim: &Shim,
    keeper: &Keeper,
    request: Create,
    mut opened: Opened,
) -> Result<u32> {
    let (id, tty) = (request.container.clone(), request.tty);
    let doing = if request.running {
        "OCI runtime restore failed"
    } else {
        "OCI runtime create failed"
    };
    let three = opened.three.each_ref().map(|fd| fd.as_fd());
    let request = Create {
        streams: !tty,
        ..request
    };
    let fds = if tty { &[][..] } else { &three[..] };
    let (created, _) = keeper.call(doing, &request, fds, runtime::LIMIT)?;
    if tty {
        let attach = Attach {
            container: id.clone(),
            stdin: true,
            stdout: true,
            patient: true,
            ..Attach::default()
        };
        keeper.call(
            "connecting to the container's terminal",
            &attach,
            &three[..2],
            LIMIT,
        )?;
    }
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(&id, "")?;
    process.pid = created.pid;
    process.phase = if request.running {
        Phase::Running
    } else {
        Phase::Created
    };
    process.stdin = opened.stdin.take();
    process.logger = opened.logger.take();
    Ok(created.pid)
}
