//! Restores a container from a checkpoint.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use orlop_fs::Membership;
use orlop_oci_types::{Hooks, Linux};

use super::external::{NOTHING, give_namespaces, trees};
use super::options::{DESCRIPTORS, DESCRIPTORS_MAX, Options};
use super::quote::quote;
use super::rpc::{CgroupRoot, CriuOpts, CriuReq, CriuReqType};
use super::session::{Notice, Session};
use super::stage::Stage;
use crate::args::Globals;
use crate::bundle::Bundle;
use crate::cgroup::{self, Cgroup, Wanted};
use crate::error::{Error, Result, While};
use crate::hooks;
use crate::launch::{Console, Created, filter, in_new_directory};
use crate::log::Log;
use crate::plan::{NEW_TIME, Namespaces, Terminal};
use crate::rdt::Rdt;
use crate::state::{State, StateDir, Status, own_descriptors, process};
use crate::sys::{open_pidfd, send_with};
use crate::time::now;

const LOG_FILE: &str = "restore.log";
/// The mount point of the root file system, in the container's directory.
const ROOT: &str = "criu-root";

/// Lets CRIU restore a container of a bundle. If that fails, nothing is left of it.
pub(crate) fn restore(
    globals: &Globals,
    log: &Log,
    id: &str,
    bundle: &Bundle,
    console: &Console,
    options: &Options,
) -> Result<Created> {
    in_new_directory(globals, id, |dir| {
        make(globals, log, id, bundle, console, options, dir)
    })
}

fn make(
    globals: &Globals,
    log: &Log,
    id: &str,
    bundle: &Bundle,
    console: &Console,
    options: &Options,
    dir: &StateDir,
) -> Result<(State, OwnedFd)> {
    let spec = &bundle.spec;
    let linux = bundle.linux()?;
    let terminal = console.terminal(bundle.process()?)?;
    let wanted = Wanted::of(globals, id, bundle)?;
    let rdt = linux.intel_rdt.as_ref().map(|it| Rdt::plan(id, it));
    let hooks = spec.hooks.clone().unwrap_or_default();
    let state = State {
        namespaces: Namespaces::open(linux)?.all,
        // CRIU does not restore a process with a seccomp listener.
        listener: None,
        rdt: rdt.transpose()?,
        descriptors: own_descriptors(terminal.is_some()),
        ..State::new(globals, id, bundle, Cgroup::plan(&wanted)?)
    };
    // Before anything is made that outlives this process.
    dir.save(&state)?;
    if let Some(profile) = &linux.seccomp {
        // For processes that join it; the restored processes bring their own filters.
        filter::write(
            &dir.filter(),
            &filter::filter(&globals.root, bundle, profile, log)?,
        )?;
    }
    let entry = state.cgroup.make(&wanted)?;
    let mut restoring = Restoring {
        dir,
        state,
        hooks: &hooks,
        terminal,
        process: None,
    };
    let done = restoring.with(bundle, linux, options, log, entry);
    if done.is_err() {
        let state = &restoring.state;
        let _ = state.cgroup.kill_all(rustix::process::Signal::KILL);
        let _ = state.cgroup.remove();
        if let Some(rdt) = &state.rdt {
            let _ = rdt.remove();
        }
    }
    done?;
    let Restoring { state, process, .. } = restoring;
    let process = process.ok_or_else(|| Error::new("CRIU did not report the restored process"))?;
    Ok((state, process))
}

/// A container that is being restored.
struct Restoring<'a> {
    dir: &'a StateDir,
    state: State,
    hooks: &'a Hooks,
    terminal: Option<Terminal>,
    process: Option<OwnedFd>,
}

impl Restoring<'_> {
    fn with(
        &mut self,
        bundle: &Bundle,
        linux: &Linux,
        options: &Options,
        log: &Log,
        mut entry: cgroup::Entry,
    ) -> Result<()> {
        if let (Some(rdt), Some(wanted)) = (&mut self.state.rdt, &linux.intel_rdt) {
            rdt.make(wanted)?;
        }
        let root = self.dir.path().join(ROOT);
        fs::create_dir(&root).doing(|| root.display().to_string())?;
        let root = root.canonicalize().doing(|| root.display().to_string())?;
        let unless_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
        let mut opts = CriuOpts {
            root: Some(root.to_string_lossy().into_owned()),
            evasive_devices: Some(true),
            // The container's process is our child, not CRIU's.
            rst_sibling: Some(true),
            lsm_profile: unless_empty(&options.lsm_profile),
            lsm_mount_context: unless_empty(&options.lsm_mount_context),
            ..CriuOpts::new(options, LOG_FILE, &bundle.spec.annotations)
        };
        for (place, source) in trees(bundle, &self.state.cgroup)? {
            opts.mount(place, source.to_string_lossy());
        }
        if !linux.masked_paths.is_empty() {
            opts.mount(NOTHING, NOTHING);
        }
        give_pipes(&mut opts, &options.images.join(DESCRIPTORS))?;
        let keeps = give_namespaces(&mut opts, linux)?;
        let stage = Stage {
            bundle,
            entry: &entry,
            root: &root,
            keeps: &keeps,
            images: &options.images,
            work: options.work.as_deref(),
        };
        let (session, [images, work]) = stage.start()?;
        opts.images_dir_fd = Some(images);
        opts.work_dir_fd = options.work.is_some().then_some(work);
        opts.cg_root = cgroup_roots(session.pid())?;
        let done = self.ask(session, &opts.request(CriuReqType::Restore));
        let _ = fs::remove_dir(&root);
        done.map_err(|error| {
            let file = options.log_dir().join(LOG_FILE);
            quote(log, &file);
            Error::new(format!("{error}; log file: {}", file.display()))
        })?;
        cgroup::release(entry.holder.take())?;
        if let Some(rdt) = &self.state.rdt {
            rdt.add(self.state.pid)?;
        }
        Ok(())
    }

    fn ask(&mut self, session: Session, request: &CriuReq) -> Result<()> {
        session.ask(request, &mut |notice| self.notice(notice))?;
        match session.end()? {
            0 => Ok(()),
            code => Err(Error::new(format!("criu failed: exit status {code}"))),
        }
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        match notice.name.as_str() {
            "setup-namespaces" => {
                self.state.pid = notice.pid;
                let document = self.state.document(Status::Creating);
                hooks::run(&self.hooks.prestart, "prestart", &document)?;
                hooks::run(&self.hooks.create_runtime, "createRuntime", &document)
            }
            "orphan-pts-master" => {
                let (Some(master), Some(terminal)) = (notice.file, &self.terminal) else {
                    return Ok(());
                };
                send_with(
                    terminal.socket.as_fd(),
                    b"orphan-pts-master",
                    master.as_fd(),
                )
                .doing(|| "cannot send the terminal".to_owned())
            }
            "post-restore" => self.note(notice.pid),
            _ => Ok(()),
        }
    }

    /// Records the process: it exists, and continues in a moment.
    fn note(&mut self, pid: i32) -> Result<()> {
        let told = || "cannot open the restored process".to_owned();
        let pidfd = open_pidfd(pid).doing(told)?;
        let Some((start, true)) = process(pid) else {
            return Err(Error::new("the restored process has exited"));
        };
        (self.state.pid, self.state.start_time) = (pid, start);
        self.state.created = now();
        if has_own_time(pid) {
            // CRIU uses a time namespace to continue its clocks.
            self.state.namespaces |= NEW_TIME;
        }
        self.process = Some(pidfd);
        self.dir.save(&self.state)
    }
}

fn has_own_time(pid: i32) -> bool {
    let inode = |of: &str| {
        let path = PathBuf::from("/proc").join(of).join("ns/time");
        fs::metadata(path).map(|look| look.ino()).ok()
    };
    inode(&pid.to_string()) != inode("self")
}

/// Replaces the pipes of the old standard streams with the current ones.
fn give_pipes(opts: &mut CriuOpts, file: &std::path::Path) -> Result<()> {
    let told = || file.display().to_string();
    let text = orlop_fs::read_file(file, DESCRIPTORS_MAX).doing(told)?;
    let streams: Vec<String> = serde_json::from_slice(&text).doing(told)?;
    for (fd, stream) in (0..3).zip(streams) {
        if stream.contains("pipe:") {
            opts.inherit(stream, fd);
        }
    }
    Ok(())
}

/// Returns the root of the container's cgroups: CRIU's own cgroup.
fn cgroup_roots(pid: i32) -> Result<Vec<CgroupRoot>> {
    let told = || "cannot read CRIU's cgroup".to_owned();
    let membership = Membership::of(pid.unsigned_abs()).doing(told)?;
    let mut roots = Vec::new();
    for controllers in membership.controllers() {
        for controller in controllers {
            if let Some(path) = membership.path(controller) {
                roots.push(CgroupRoot {
                    ctrl: Some(controller.to_string()),
                    path: path.into(),
                });
            }
        }
    }
    Ok(roots)
}
