//! A client of systemd for slices and scopes, over D-Bus.
//!
//! systemd listens on a private socket for root, and on the system bus. Few calls are needed, so this module implements
//! the protocol itself (`dbus`, `message`). It observes results in the cgroup tree rather than with systemd's signals.

mod dbus;
mod message;
mod properties;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub use properties::{Property, Value, limits_as_properties};

use crate::{Cgroup, CgroupPath, Error};
use dbus::{Address, Connection};
use message::Body;

/// systemd's private socket, for root.
const PRIVATE: &str = "/run/systemd/private";

/// The system bus.
const BUS: &str = "/run/dbus/system_bus_socket";

const NAME: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// Maximum time for systemd to reply, or to complete a job.
const PATIENCE: Duration = Duration::from_secs(25);

/// A connection to systemd.
#[derive(Debug)]
pub struct Systemd {
    connection: Connection,
}

impl Systemd {
    /// Returns whether systemd runs on this node.
    pub fn is_running() -> bool {
        Path::new("/run/systemd/system").is_dir()
    }

    /// Connects to systemd.
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to_own().or_else(|_| {
            let connection = Connection::open(&Address::Bus(BUS.into()), PATIENCE)?;
            Ok(Self { connection })
        })
    }

    /// Connects to systemd through its private socket, which accepts only root.
    pub fn connect_to_own() -> Result<Self, Error> {
        let connection = Connection::open(&Address::Peer(PRIVATE.into()), PATIENCE)?;
        Ok(Self { connection })
    }

    /// Connects to the systemd of this process's user: directly, or over the user's bus.
    ///
    /// For root of a user namespace this is the user outside who is mapped to that root.
    pub fn connect_to_users() -> Result<Self, Error> {
        let text = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dir = text("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut addresses = Vec::new();
        if let Some(dir) = &dir {
            addresses.push(Address::Peer(dir.join("systemd/private")));
        }
        if let Some(told) = text("DBUS_SESSION_BUS_ADDRESS") {
            addresses.extend(dbus::addresses(&told.to_string_lossy()).map(Address::Bus));
        }
        if let Some(dir) = &dir {
            addresses.push(Address::Bus(dir.join("bus")));
        }
        let mut failed = Error::Systemd {
            action: "connect to the user instance".to_owned(),
            problem: "neither XDG_RUNTIME_DIR nor DBUS_SESSION_BUS_ADDRESS is set; log in again, or set XDG_RUNTIME_DIR to /run/user/UID".to_owned(),
        };
        for address in addresses {
            match Connection::open(&address, PATIENCE) {
                Ok(connection) => return Ok(Self { connection }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Returns the cgroup below which systemd makes slices: the root for the system manager, except in a container.
    pub fn cgroup(&mut self) -> Result<CgroupPath, Error> {
        let call = message::Call {
            destination: NAME,
            path: OBJECT,
            interface: "org.freedesktop.DBus.Properties",
            method: "Get",
        };
        let mut body = Body::new("ss");
        body.text(MANAGER);
        body.text("ControlGroup");
        let told = self.connection.call(&call, &body);
        let told =
            told.and_then(|text| text.ok_or_else(|| "the response is not a string".to_owned()));
        match told {
            Ok(path) if path.is_empty() => Ok(CgroupPath::root()),
            Ok(path) => Ok(CgroupPath::parse(&path)?),
            Err(problem) => Err(Error::Systemd {
                action: "get the cgroup of systemd".to_owned(),
                problem,
            }),
        }
    }

    /// Moves a process into a unit, or into the cgroup `below` that of the unit.
    ///
    /// A user's systemd can do this even if the user may not: it asks the system manager. The move is complete when
    /// this returns.
    pub fn attach(&mut self, unit: &str, below: &str, pid: u32) -> Result<(), Error> {
        let mut body = Body::new("ssau");
        body.text(unit);
        body.text(below);
        body.array(4, |pids| pids.u32(pid));
        self.call("AttachProcessesToUnit", body, unit)
    }

    /// Starts a transient unit, which lasts until it ends or the node reboots. It may exist only later.
    pub fn start_transient(&mut self, unit: &str, properties: &[Property]) -> Result<(), Error> {
        self.start(unit, properties)
    }

    /// Resets a failed unit. It is no error if the unit does not exist.
    pub fn forget(&mut self, unit: &str) -> Result<(), Error> {
        let mut body = Body::new("s");
        body.text(unit);
        match self.call("ResetFailedUnit", body, unit) {
            Err(Error::Systemd { problem, .. }) if problem.contains("NoSuchUnit") => Ok(()),
            forgotten => forgotten,
        }
    }

    /// Starts a slice and waits until its cgroup exists. An existing slice is kept, with these properties.
    pub fn start_slice(&mut self, cgroup: &Cgroup, properties: &[Property]) -> Result<(), Error> {
        let name = cgroup.path().name().to_owned();
        let mut all = vec![Property::new("DefaultDependencies", Value::Bool(false))];
        all.extend_from_slice(properties);
        match self.start(&name, &all) {
            // It is running already: only its properties need an update.
            Err(Error::Systemd { problem, .. })
                if problem.contains("UnitExists") && cgroup.exists() =>
            {
                return if properties.is_empty() {
                    Ok(())
                } else {
                    self.set(&name, properties)
                };
            }
            started => started?,
        }
        wait(&format!("create {name}"), || cgroup.exists())
    }

    /// Starts a scope in a slice with running processes, and waits until they are in it.
    ///
    /// The cgroups below it are delegated to the caller.
    pub fn start_scope(
        &mut self,
        cgroup: &Cgroup,
        pids: &[u32],
        properties: &[Property],
    ) -> Result<(), Error> {
        let name = cgroup.path().name().to_owned();
        let slice = cgroup.path().parent().map(|above| above.name().to_owned());
        let mut all = vec![
            Property::new("DefaultDependencies", Value::Bool(false)),
            Property::new("Delegate", Value::Bool(true)),
            Property::new("PIDs", Value::Numbers(pids.to_vec())),
        ];
        if let Some(slice) = slice.filter(|slice| !slice.is_empty()) {
            all.push(Property::new("Slice", Value::Text(slice)));
        }
        all.extend_from_slice(properties);
        self.start(&name, &all)?;
        wait(&format!("create {name}"), || {
            let inside = cgroup.processes().unwrap_or_default();
            pids.iter().all(|pid| inside.contains(&(*pid as i32)))
        })
    }

    /// Changes properties of a running unit, until the next reboot.
    pub fn set(&mut self, unit: &str, properties: &[Property]) -> Result<(), Error> {
        let mut body = Body::new("sba(sv)");
        body.text(unit);
        body.boolean(true);
        properties::write(&mut body, properties);
        self.call("SetUnitProperties", body, unit)
    }

    /// Stops a unit and all its processes. It is no error if the unit does not exist.
    pub fn stop(&mut self, unit: &str) -> Result<(), Error> {
        let mut body = Body::new("ss");
        body.text(unit);
        body.text("replace");
        match self.call("StopUnit", body, unit) {
            Err(Error::Systemd { problem, .. }) if problem.contains("NoSuchUnit") => Ok(()),
            stopped => stopped,
        }
    }

    fn start(&mut self, name: &str, properties: &[Property]) -> Result<(), Error> {
        let unit = |mode: &str| {
            let mut body = Body::new("ssa(sv)a(sa(sv))");
            body.text(name);
            body.text(mode);
            properties::write(&mut body, properties);
            // No auxiliary units.
            body.array(8, |_| {});
            body
        };
        match self.call("StartTransientUnit", unit("replace"), name) {
            // systemd remembers a failed unit of this name, which blocks a new one.
            Err(Error::Systemd { problem, .. }) if problem.contains("UnitExists") => {
                let mut body = Body::new("s");
                body.text(name);
                self.call("ResetFailedUnit", body, name)?;
                self.call("StartTransientUnit", unit("replace"), name)
            }
            started => started,
        }
    }

    fn call(&mut self, method: &str, body: Body, unit: &str) -> Result<(), Error> {
        let call = message::Call {
            destination: NAME,
            path: OBJECT,
            interface: MANAGER,
            method,
        };
        self.connection
            .call(&call, &body)
            .map(drop)
            .map_err(|problem| Error::Systemd {
                action: format!("{method} {unit}"),
                problem,
            })
    }
}

fn wait(action: &str, mut done: impl FnMut() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    while !done() {
        if Instant::now() >= deadline {
            let problem = format!("timed out after {} seconds", PATIENCE.as_secs());
            return Err(Error::Systemd {
                action: action.to_owned(),
                problem,
            });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}
