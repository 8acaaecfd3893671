//! Creates a cgroup and sets all its limits before a process is in it.

use std::path::{Path, PathBuf};

use orlop_oci_types::Resources;
use rustix::fs::{AtFlags, CWD, Mode, mkdirat, unlinkat};
use rustix::io::Errno;

use super::dirs::Dirs;
use super::entry::Entry;
use super::files::{Dir, Failed, is_for_want_of_rights};
use super::life::State;
use super::place::{Cgroup, Place, Wanted};
use super::{devices, limits};
use crate::error::{Error, Result, meaning};

impl Cgroup {
    /// Makes the directories, sets the limits and opens the entry; or lets systemd do its part.
    ///
    /// If this fails, the directories made so far are removed.
    pub(crate) fn make(&self, wanted: &Wanted<'_>) -> Result<Entry> {
        if let Some(unit) = &self.unit {
            return self.make_unit(unit, wanted);
        }
        let mut made = Made::default();
        let Some(dirs) = made.directories(self, wanted)? else {
            return Ok(Entry::default());
        };
        if made.existed {
            self.refuse_if_used()?;
        }
        let nothing = Resources::default();
        let resources = wanted.resources.unwrap_or(&nothing);
        made.inherit_cpuset(&dirs, resources)?;
        limits::set(&dirs, resources).map_err(|error| error.within("linux.resources"))?;
        devices::set(&dirs, resources, wanted)
            .map_err(|error| error.within("linux.resources.devices"))?;
        let entry = Entry::of(dirs)?;
        made.keep();
        Ok(entry)
    }

    /// Refuses a cgroup that has processes or is frozen: it belongs to another container, or is left over from a
    /// failure. With cgroup v1 only one hierarchy is checked for processes, as in other runtimes.
    fn refuse_if_used(&self) -> Result<()> {
        let alive = self.alive();
        let listed = match self.dir("devices") {
            Some(dir) => orlop_cgroup::processes_below(dir),
            None => alive.processes(),
        };
        let processes = match listed {
            Err(error) if !error.is_not_found() => {
                return Err(Error::new(format!("unable to get cgroup PIDs: {error}")));
            }
            listed => listed.unwrap_or_default(),
        };
        if !processes.is_empty() {
            let count = processes.len();
            return Err(Error::new(format!(
                "container's cgroup is not empty: {count} process(es) found"
            )));
        }
        match self.state()? {
            State::Frozen => Err(Error::new("container's cgroup unexpectedly frozen")),
            State::Thawed => Ok(()),
        }
    }
}

impl<'a> Dirs<'a> {
    /// Completes a cgroup that systemd made, in the hierarchies that systemd does not manage.
    pub(super) fn complete(cgroup: &'a Cgroup, resources: &Resources) -> Result<Self> {
        let mut made = Made::default();
        let mut open = Vec::with_capacity(cgroup.places.len());
        for place in &cgroup.places {
            made.directory(&place.dir)
                .map_err(|errno| refused(place, errno))?;
            open.push(Some(Dir::open(&place.dir)?));
        }
        let dirs = Self { cgroup, open };
        made.inherit_cpuset(&dirs, resources)?;
        made.keep();
        Ok(dirs)
    }
}

/// Directories made so far, removed again unless they are kept.
#[derive(Debug, Default)]
struct Made {
    directories: Vec<PathBuf>,
    existed: bool,
}

impl Made {
    /// Makes all directories. With cgroup v2 and an optional cgroup it may make none.
    fn directories<'a>(
        &mut self,
        cgroup: &'a Cgroup,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Dirs<'a>>> {
        let mut open = Vec::with_capacity(cgroup.places.len());
        for place in &cgroup.places {
            match self.directory(&place.dir) {
                Ok(existed) => self.existed |= existed,
                Err(errno) if cgroup.optional && is_for_want_of_rights(errno) => {
                    if cgroup.is_v2() {
                        return without(place, wanted, errno);
                    }
                    open.push(None);
                    continue;
                }
                Err(errno) => return Err(refused(place, errno)),
            }
            open.push(Some(Dir::open(&place.dir)?));
        }
        let dirs = Dirs { cgroup, open };
        if let (true, [place]) = (cgroup.is_v2(), &cgroup.places[..]) {
            delegate(dirs.of("")?, place, wanted.resources)?;
        }
        Ok(Some(dirs))
    }

    /// Makes a directory; returns whether it existed.
    fn directory(&mut self, path: &Path) -> Result<bool, Errno> {
        let make = || mkdirat(CWD, path, Mode::from_raw_mode(0o755));
        let made = match make() {
            Err(Errno::NOENT) => {
                let above = path.parent().ok_or(Errno::NOENT)?;
                self.directory(above)?;
                make()
            }
            made => made,
        };
        match made {
            Ok(()) => {
                self.directories.push(path.to_owned());
                Ok(false)
            }
            Err(Errno::EXIST) => Ok(true),
            Err(errno) => Err(errno),
        }
    }

    /// Copies unset cpuset values from the parent. With cgroup v1 no process can enter a cpuset without CPUs or memory
    /// nodes, as new ones are.
    fn inherit_cpuset(&self, dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
        let Some(dir) = dirs.find("cpuset").filter(|_| !dirs.is_v2()) else {
            return Ok(());
        };
        let cpu = resources.cpu.as_ref();
        for (name, said) in [
            ("cpuset.cpus", cpu.map_or("", |cpu| &cpu.cpus)),
            ("cpuset.mems", cpu.map_or("", |cpu| &cpu.mems)),
        ] {
            // The parent may be empty too, if it was made by hand. Configured values must be a subset of the parent's.
            let above = as_above(dir.path(), name)?;
            let is_new = self.directories.iter().any(|it| it == dir.path());
            if said.is_empty() && (is_new || is_empty(&dir.read(name)?)) {
                dir.write(name, above)?;
            }
        }
        Ok(())
    }

    fn keep(mut self) {
        self.directories.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.directories.iter().rev() {
            let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
        }
    }
}

fn refused(place: &Place, errno: Errno) -> Error {
    let (dir, reason) = (place.dir.display(), meaning(errno.raw_os_error()));
    Error::new(format!("mkdir {dir}: {reason}"))
}

fn without<T>(place: &Place, wanted: &Wanted<'_>, errno: Errno) -> Result<Option<T>> {
    if wanted
        .resources
        .is_none_or(|it| !limits::need_controllers(it))
    {
        return Ok(None);
    }
    let refused = refused(place, errno);
    Err(refused.within(
        "rootless needs no limits + no cgrouppath when no permission is granted for cgroups",
    ))
}

fn as_above(path: &Path, name: &str) -> Result<String, Failed> {
    let above = Dir::open(path.parent().unwrap_or(path))?;
    let value = above.read(name)?;
    if !is_empty(&value) {
        return Ok(value.trim_end().to_owned());
    }
    // The root's are never empty, so the recursion ends; a directory that is no cgroup has no such file.
    let value = as_above(above.path(), name)?;
    above.write(name, &value)?;
    Ok(value)
}

fn is_empty(value: &str) -> bool {
    value.trim().is_empty()
}

/// Cgroup v2: enables all available controllers from the top down. A controller may fail to be enabled because
/// processes are in the way or privileges are missing. That must not stop the others: a limit whose file is then
/// missing is a separate error.
pub(super) fn delegate(dir: &Dir, place: &Place, resources: Option<&Resources>) -> Result<()> {
    let kind = dir.read("cgroup.type").unwrap_or_default();
    let needs_domain = resources.is_some_and(limits::need_a_domain);
    match kind.trim() {
        "domain invalid" if needs_domain => {
            let path = dir.path().display();
            return Err(Error::new(format!(
                "cannot enter cgroupv2 \"{path}\" with domain controllers -- it is in an invalid state"
            )));
        }
        // Below a threaded cgroup there are only threaded ones.
        "domain invalid" => drop(dir.write("cgroup.type", "threaded")),
        kind @ ("threaded" | "domain threaded") if needs_domain => {
            let path = dir.path().display();
            return Err(Error::new(format!(
                "cannot enter cgroupv2 \"{path}\" with domain controllers -- it is in {kind} mode"
            )));
        }
        _ => {}
    }
    let point = Dir::open(&place.point)?;
    let all = point.read("cgroup.controllers").unwrap_or_default();
    let own = dir.read("cgroup.controllers").unwrap_or_default();
    let has = |name: &str| own.split_whitespace().any(|it| it == name);
    if all.split_whitespace().all(has) {
        return Ok(());
    }
    let mut above: Vec<&Path> = dir.path().ancestors().skip(1).collect();
    above.retain(|it| it.starts_with(&place.point));
    for path in above.into_iter().rev() {
        enable(&Dir::open(path)?, &all);
    }
    Ok(())
}

fn enable(dir: &Dir, controllers: &str) {
    let Ok(file) = dir.file("cgroup.subtree_control") else {
        return;
    };
    let each = controllers.split_whitespace().map(|it| format!("+{it}"));
    let each: Vec<String> = each.collect();
    if file.write(each.join(" ")).is_err() {
        for one in each {
            let _ = file.write(one);
        }
    }
}
