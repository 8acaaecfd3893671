//! A cgroup made by systemd: a scope, which systemd makes only around processes.

use std::thread;
use std::time::{Duration, Instant};

use orlop_cgroup::{CgroupPath, Property, Systemd, Value};
use orlop_oci_types::Resources;

use super::dirs::Dirs;
use super::entry::Entry;
use super::holder::Holder;
use super::make::delegate;
use super::mounts::{Mounted, Mounts};
use super::place::{Cgroup, Place, Unit, Wanted};
use super::systemd::systemd;
use super::{devices, limits, properties};
use crate::error::{Error, Result, While};

/// Maximum time for a systemd job. Other runtimes wait as long.
const PATIENCE: Duration = Duration::from_secs(30);

impl Cgroup {
    pub(super) fn of_unit(wanted: &Wanted<'_>) -> Result<Self> {
        if !Systemd::is_running() {
            return Err(Error::new(
                "systemd not running on this host, cannot use systemd cgroups manager",
            ));
        }
        properties::of_annotations(wanted.annotations)?;
        let above = if wanted.rootless {
            let told = systemd(true)?.cgroup();
            told.doing(|| "unable to communicate with systemd".to_owned())?
        } else {
            CgroupPath::root()
        };
        let unit = Unit::of(wanted)?;
        let path = unit.path(&above)?;
        let place = |mounted: &Mounted| Place {
            controllers: mounted.controllers.clone(),
            dir: path.below(&mounted.point),
            point: mounted.point.clone(),
        };
        let (version, places) = match &Mounts::find(false)? {
            Mounts::V2(mounted) => (2, vec![place(mounted)]),
            Mounts::V1(all) => (1, all.iter().map(place).collect()),
        };
        Ok(Self {
            version,
            places,
            unit: Some(unit),
            optional: false,
            rootless: wanted.rootless,
        })
    }

    /// Lets systemd make the cgroup around an idle process, which holds it until the container's process is born in it.
    /// Then sets what systemd has no property for.
    pub(super) fn make_unit(&self, unit: &Unit, wanted: &Wanted<'_>) -> Result<Entry> {
        let nothing = Resources::default();
        let mut resources = wanted.resources.unwrap_or(&nothing).clone();
        let rules = devices::Rules::of(&resources.devices, wanted.devices)?;
        // If the limit leaves room for one process only, that must be the container's, not the holder or the processes
        // that move it there. Such a limit is set later.
        let others = if self.rootless { 3 } else { 1 };
        let pids = resources
            .pids
            .take_if(|it| it.limit.is_some_and(|limit| (0..=others).contains(&limit)));
        let holder = Holder::start()?;
        let mut all = unit.properties(wanted, holder.pid(), self.is_v2());
        all.extend(properties::of_annotations(wanted.annotations)?);
        all.extend(properties::of_resources(&resources, self.version)?);
        all.extend(properties::of_devices(&rules));
        all.extend(properties::oom_policy(&resources));
        let mut systemd = self.systemd()?;
        let started = systemd.start_transient(&unit.name, &all);
        started.doing(|| format!("unable to start unit {:?}", unit.name))?;
        match self.fill(wanted, holder.pid(), &resources) {
            Err(error) => {
                drop(holder);
                let _ = stop(&mut systemd, unit);
                let _ = self.alive().remove(PATIENCE);
                Err(error)
            }
            Ok(mut entry) => {
                let then = pids.map(|pids| {
                    let pids = Some(pids);
                    (
                        self.clone(),
                        Resources {
                            pids,
                            ..Resources::default()
                        },
                    )
                });
                entry.holder = Some(holder.and_then(then));
                entry.ferry = self.ferry(None);
                Ok(entry)
            }
        }
    }

    fn fill(&self, wanted: &Wanted<'_>, pid: i32, resources: &Resources) -> Result<Entry> {
        self.wait_for(pid)?;
        let dirs = Dirs::complete(self, resources)?;
        if let (true, [place]) = (self.is_v2(), &self.places[..]) {
            delegate(dirs.of("")?, place, wanted.resources)?;
        }
        limits::set(&dirs, &properties::as_systemd_rounds(resources))?;
        devices::set(&dirs, resources, wanted)?;
        Entry::of(dirs)
    }

    /// Changes the limits that systemd manages, which it would reset otherwise.
    pub(super) fn update_unit(&self, unit: &Unit, resources: &Resources) -> Result<()> {
        let all = properties::of_resources(resources, self.version)?;
        if all.is_empty() {
            return Ok(());
        }
        let set = self.systemd()?.set(&unit.name, &all);
        set.doing(|| "unable to set unit properties".to_owned())
    }

    /// Stops the unit. Hierarchies that systemd does not manage remain.
    pub(super) fn end_unit(&self, unit: &Unit) -> Result<()> {
        stop(&mut self.systemd()?, unit)
    }

    fn systemd(&self) -> Result<Systemd> {
        systemd(self.rootless)
    }

    /// Waits until systemd has moved the process.
    fn wait_for(&self, pid: i32) -> Result<()> {
        let place = self.places.iter().find(|place| {
            let is_systemds = |it: &String| it == "name=systemd";
            self.is_v2() || place.controllers.iter().any(is_systemds)
        });
        let dir = place.map(|place| place.dir.as_path());
        let dir = dir.ok_or_else(|| Error::new("systemd's cgroup hierarchy is not mounted"))?;
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(200);
        loop {
            let inside = orlop_cgroup::processes_in(dir).unwrap_or_default();
            if inside.contains(&pid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let dir = dir.display();
                return Err(Error::new(format!(
                    "Timeout waiting for systemd to move the process to {dir}"
                )));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

impl Unit {
    /// Parses `slice:prefix:name`.
    fn of(wanted: &Wanted<'_>) -> Result<Self> {
        let slice = if wanted.rootless {
            "user.slice"
        } else {
            "system.slice"
        };
        let (slice, prefix, name) = if wanted.path.is_empty() {
            (slice, "orlop-run", wanted.id)
        } else {
            let mut parts = wanted.path.split(':');
            let parts = (parts.next(), parts.next(), parts.next(), parts.next());
            let (Some(said), Some(prefix), Some(name), None) = parts else {
                return Err(Error::new(format!(
                    "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got {:?} instead",
                    wanted.path
                )));
            };
            (if said.is_empty() { slice } else { said }, prefix, name)
        };
        if name.strip_suffix(".slice").is_some() {
            return Err(Error::new(format!(
                "cgroupsPath {:?}: a slice cannot contain processes; use a name without the suffix .slice",
                wanted.path
            )));
        }
        if slice.contains('/') {
            return Err(Error::new(format!("invalid slice name: {slice}")));
        }
        Ok(Self {
            name: format!("{prefix}-{name}.scope"),
            slice: slice.to_owned(),
        })
    }

    /// Returns the cgroup, below that of the systemd that makes it.
    fn path(&self, above: &CgroupPath) -> Result<CgroupPath> {
        let invalid = |_| Error::new(format!("invalid slice name: {}", self.slice));
        let slice = CgroupPath::of_slice(&self.slice).map_err(invalid)?;
        let whole = format!("{}/{}", above.as_str(), slice.as_str());
        let whole = CgroupPath::parse(&whole);
        let told = |error: orlop_cgroup::PathError| Error::new(error.to_string());
        whole.and_then(|it| it.child(&self.name)).map_err(told)
    }

    fn properties(&self, wanted: &Wanted<'_>, pid: i32, is_v2: bool) -> Vec<Property> {
        let io = if is_v2 {
            "IOAccounting"
        } else {
            "BlockIOAccounting"
        };
        let text = |name, value: String| Property::new(name, Value::Text(value));
        let yes = |name| Property::new(name, Value::Bool(true));
        vec![
            text("Description", format!("container {}", wanted.id)),
            text("Slice", self.slice.clone()),
            yes("Delegate"),
            Property::new("PIDs", Value::Numbers(vec![pid.unsigned_abs()])),
            yes("MemoryAccounting"),
            yes("CPUAccounting"),
            yes(io),
            yes("TasksAccounting"),
            Property::new("DefaultDependencies", Value::Bool(false)),
        ]
    }
}

fn stop(systemd: &mut Systemd, unit: &Unit) -> Result<()> {
    let stopped = systemd.stop(&unit.name);
    // A failed unit would block the next unit with its name.
    let _ = systemd.forget(&unit.name);
    stopped.doing(|| format!("unable to stop unit {:?}", unit.name))
}
