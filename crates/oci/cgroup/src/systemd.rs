//! Asking systemd for slices and scopes, over D-Bus.
//!
//! systemd listens on a socket of its own for root, and on the system bus. Few calls are needed, so
//! the protocol is spoken here directly (`dbus`, `message`). What comes of a call is seen in the
//! cgroup tree rather than in systemd's signals.

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

/// systemd's own socket, for root.
const PRIVATE: &str = "/run/systemd/private";

/// The system bus.
const BUS: &str = "/run/dbus/system_bus_socket";

const NAME: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// How long systemd may take for an answer, or for what it promised.
const PATIENCE: Duration = Duration::from_secs(25);

/// A connection to systemd.
#[derive(Debug)]
pub struct Systemd {
    connection: Connection,
}

impl Systemd {
    /// Whether this node was started by systemd.
    pub fn is_running() -> bool {
        Path::new("/run/systemd/system").is_dir()
    }

    /// Connects to it.
    pub fn connect() -> Result<Self, Error> {
        Self::connect_to_own().or_else(|_| {
            let connection = Connection::open(&Address::Bus(BUS.into()), PATIENCE)?;
            Ok(Self { connection })
        })
    }

    /// Connects to it by the socket at which it hears root alone.
    pub fn connect_to_own() -> Result<Self, Error> {
        let connection = Connection::open(&Address::Peer(PRIVATE.into()), PATIENCE)?;
        Ok(Self { connection })
    }

    /// Connects to the one of this process's user: directly, or over the user's bus.
    ///
    /// A process that is root of a user namespace alone has for its user whoever is root there outside.
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

    /// The cgroup below which it makes slices: of the one of the whole node the root, save in a container.
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

    /// Has it put a process into a unit, or into the cgroup `below` that of the unit.
    ///
    /// The systemd of a user does that where its user may not: it asks the one of the node. It has been done when
    /// this returns.
    pub fn attach(&mut self, unit: &str, below: &str, pid: u32) -> Result<(), Error> {
        let mut body = Body::new("ssau");
        body.text(unit);
        body.text(below);
        body.array(4, |pids| pids.u32(pid));
        self.call("AttachProcessesToUnit", body, unit)
    }

    /// Makes a unit that lasts until it ends or the node does. It may be there only later.
    pub fn start_transient(&mut self, unit: &str, properties: &[Property]) -> Result<(), Error> {
        self.start(unit, properties)
    }

    /// Forgets a unit that failed. One that is not there is no failure.
    pub fn forget(&mut self, unit: &str) -> Result<(), Error> {
        let mut body = Body::new("s");
        body.text(unit);
        match self.call("ResetFailedUnit", body, unit) {
            Err(Error::Systemd { problem, .. }) if problem.contains("NoSuchUnit") => Ok(()),
            forgotten => forgotten,
        }
    }

    /// Makes a slice and waits until its cgroup is there. One that is there already stays, with
    /// these properties.
    pub fn start_slice(&mut self, cgroup: &Cgroup, properties: &[Property]) -> Result<(), Error> {
        let name = cgroup.path().name().to_owned();
        let mut all = vec![Property::new("DefaultDependencies", Value::Bool(false))];
        all.extend_from_slice(properties);
        match self.start(&name, &all) {
            // It is running: all there is to do is to tell it the properties.
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

    /// Makes a scope of a slice with running processes in it, and waits until they are.
    ///
    /// What lies below it is left to the caller.
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

    /// Changes properties of a running unit, until the next start of the node.
    pub fn set(&mut self, unit: &str, properties: &[Property]) -> Result<(), Error> {
        let mut body = Body::new("sba(sv)");
        body.text(unit);
        body.boolean(true);
        properties::write(&mut body, properties);
        self.call("SetUnitProperties", body, unit)
    }

    /// Ends a unit with all its processes. One that is not there is no failure.
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
            // No units beside it.
            body.array(8, |_| {});
            body
        };
        match self.call("StartTransientUnit", unit("replace"), name) {
            // A unit of this name that failed before is remembered and in the way.
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
