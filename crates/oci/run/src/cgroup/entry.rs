//! Moving a process into a cgroup without waiting for the kernel.

use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use orlop_fs::Membership;

use super::dirs::Dirs;
use super::files::{Dir, Failed};
use super::holder::Holder;
use super::place::{Cgroup, Place};
use super::systemd::systemd;
use crate::error::{Error, Result, While};

/// Descriptors with which a process enters a cgroup, opened beforehand.
///
/// Moving another process waits for a grace period of the kernel, some milliseconds. A process that is cloned into the
/// cgroup does not wait, nor does a single thread that moves itself through `tasks`.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// The cgroup v2 in which the process is to be cloned (`CLONE_INTO_CGROUP`).
    pub(crate) into: Option<OwnedFd>,
    /// The `tasks` files of cgroup v1, to each of which the process writes `0` while it has one thread.
    pub(crate) tasks: Vec<OwnedFd>,
    /// Lets systemd move the process, if this process may not clone into the cgroup.
    pub(crate) ferry: Option<Ferry>,
    /// The process that keeps a systemd scope alive until the container's process is in it, then to be
    /// [released](Holder::release).
    pub(crate) holder: Option<Holder>,
}

/// A cgroup into which systemd moves processes.
///
/// The kernel lets a user clone into another cgroup only if the user owns the common ancestor of both. A login session
/// is a sibling of the user's systemd, not below it.
#[derive(Debug)]
pub(crate) struct Ferry {
    unit: String,
    /// The path below the unit's own cgroup; empty for the unit's cgroup itself.
    below: String,
    rootless: bool,
}

impl Ferry {
    /// Moves a process there.
    pub(crate) fn bring(&self, pid: i32) -> Result<()> {
        let mut systemd = systemd(self.rootless)?;
        let attached = systemd.attach(&self.unit, &self.below, pid.unsigned_abs());
        attached.doing(|| format!("unable to move a process into unit {:?}", self.unit))
    }
}

impl Entry {
    /// Opens the entry files of these directories.
    pub(super) fn of(dirs: Dirs<'_>) -> Result<Self> {
        let mut entry = Self::default();
        for (place, dir) in dirs.cgroup.places.iter().zip(dirs.open) {
            if let Some(dir) = dir {
                let is_v2 = place.controllers.iter().all(String::is_empty);
                match entry.add(dir, is_v2) {
                    Err(failed) if dirs.cgroup.optional && failed.is_for_want_of_rights() => {}
                    added => added?,
                }
            }
        }
        Ok(entry)
    }

    fn add(&mut self, dir: Dir, is_v2: bool) -> Result<(), Failed> {
        if is_v2 {
            self.into = Some(dir.into_fd());
        } else {
            self.tasks.push(dir.file("tasks")?.into_fd());
        }
        Ok(())
    }
}

impl Cgroup {
    /// Opens the entry for a process that joins the container.
    ///
    /// `below` names cgroups below the container's, as `exec --cgroup` takes them: a path, or with cgroup v1
    /// `controllers:path`, several times. `init` is the container's process, which may have made cgroups below its own
    /// and moved there. With cgroup v2 a cgroup that delegates controllers can have no processes, so the joining
    /// process goes to the cgroup of the container's process.
    pub(crate) fn entry(&self, below: &[String], init: i32) -> Result<Entry> {
        let chosen = self.choose(below)?;
        if !below.is_empty() {
            let entry = Dirs::open(&chosen).and_then(Entry::of);
            let ferry = self.ferry(chosen.places.first().map(|place| place.dir.as_path()));
            return entry
                .map(|entry| Entry { ferry, ..entry })
                .map_err(|error| error.within("--cgroup: adding pid of the process"));
        }
        let mut dirs = Dirs::open(self)?;
        let mut elsewhere = None;
        if self.is_v2()
            && let Some(dir) = dirs.find("")
        {
            let handed_on = dir.read("cgroup.subtree_control").unwrap_or_default();
            if !handed_on.trim().is_empty()
                && let Some(place) = self.place_of(init)
                && let Ok(dir) = Dir::open(&place)
            {
                dirs.replace(dir);
                elsewhere = Some(place);
            }
        }
        let ferry = self.ferry(elsewhere.as_deref());
        Ok(Entry {
            ferry,
            ..Entry::of(dirs)?
        })
    }

    /// Returns the way for systemd to move a process into a user's cgroup, or into one below it.
    pub(super) fn ferry(&self, dir: Option<&Path>) -> Option<Ferry> {
        let unit = self.unit.as_ref().filter(|_| self.rootless)?;
        let own = self.places.first()?;
        let below = dir.and_then(|dir| dir.strip_prefix(&own.dir).ok());
        let below = below.filter(|below| !below.as_os_str().is_empty());
        Some(Ferry {
            unit: unit.name.clone(),
            below: below.map_or_else(String::new, |below| format!("/{}", below.display())),
            rootless: self.rootless,
        })
    }

    /// Returns the directory of a process in the cgroup v2 hierarchy.
    fn place_of(&self, pid: i32) -> Option<std::path::PathBuf> {
        let membership = Membership::of(u32::try_from(pid).ok()?).ok()?;
        let place = self.places.first()?;
        let path = membership.path("")?.trim_start_matches('/');
        let path = place.point.join(path);
        // Only if it is below the container's cgroup.
        path.starts_with(&place.dir).then_some(path)
    }

    /// Returns the cgroup with other directories below its own.
    fn choose(&self, below: &[String]) -> Result<Self> {
        let mut chosen = self.clone();
        for (at, argument) in below.iter().enumerate() {
            let Some((controllers, path)) = argument.split_once(':') else {
                if below.len() != 1 {
                    return Err(Error::new(format!(
                        "invalid --cgroup argument: {argument} (missing <controller>: prefix)"
                    )));
                }
                chosen
                    .places
                    .iter_mut()
                    .try_for_each(|place| descend(place, argument))?;
                continue;
            };
            if self.is_v2() {
                return Err(Error::new(format!(
                    "invalid --cgroup argument: {argument} (cgroup v2 has a single hierarchy; give only the path)"
                )));
            }
            for controller in controllers.split(',') {
                let twice = below[..at].iter().any(|it| {
                    let (before, _) = it.split_once(':').unwrap_or_default();
                    before.split(',').any(|it| it == controller)
                });
                if twice {
                    return Err(Error::new(format!(
                        "invalid --cgroup argument(s): controller {controller} specified multiple times"
                    )));
                }
                let names =
                    |place: &&mut Place| place.controllers.iter().any(|it| it == controller);
                let place = chosen.places.iter_mut().find(names);
                let place = place.ok_or_else(|| {
                    Error::new(format!("unknown controller {controller} in --cgroup"))
                })?;
                // Controllers that are mounted together need only one argument.
                let own = self.places.iter().find(|it| it.point == place.point);
                if own.is_some_and(|own| own.dir == place.dir) {
                    descend(place, path)?;
                }
            }
        }
        Ok(chosen)
    }
}

fn descend(place: &mut Place, path: &str) -> Result<()> {
    let path = Path::new(path.trim_start_matches('/'));
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(is_plain) {
        return Err(Error::new(format!(
            "bad sub cgroup path: {}",
            path.display()
        )));
    }
    place.dir.push(path);
    Ok(())
}
