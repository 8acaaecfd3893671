//! The address of a shim or a controller, and its protocol.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// `VMADDR_CID_LOCAL`, and the first CID of guests. The CIDs in between and below belong to the host side.
const LOCAL: u32 = 1;
const FIRST_GUEST: u32 = 3;

/// The address of a shim or controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) socket: PathBuf,
    pub(crate) version: u32,
    /// The pid of the shim; 0 until the pod's own task runs in it.
    #[serde(default)]
    pub(crate) pid: u32,
    /// Whether the protocol is gRPC; otherwise it is ttrpc.
    #[serde(default)]
    pub(crate) grpc: bool,
    /// The address in a guest; `None` for this machine.
    #[serde(default)]
    pub(crate) guest: Option<Guest>,
}

impl Endpoint {
    /// Parses an address; `protocol` applies if the address does not contain one.
    pub(crate) fn at(address: &str, protocol: &str, version: u32) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let (protocol, transport) = scheme.split_once('+').unwrap_or((protocol, scheme));
        let grpc = match protocol {
            "ttrpc" | "" => false,
            "grpc" => true,
            _ => return None,
        };
        let (socket, guest) = place(transport, rest)?;
        Some(Self {
            socket,
            version,
            pid: 0,
            grpc,
            guest,
        })
    }

    /// Formats the address as containerd does.
    pub(crate) fn address(&self) -> String {
        let protocol = if self.grpc { "grpc" } else { "ttrpc" };
        let socket = self.socket.display();
        match self.guest {
            None => format!("{protocol}+unix://{socket}"),
            Some(Guest { cid: None, port }) => format!("{protocol}+hvsock://{socket}:{port}"),
            Some(Guest {
                cid: Some(cid),
                port,
            }) => format!("{protocol}+vsock://{cid}:{port}"),
        }
    }

    /// Returns the endpoint of a controller, which uses gRPC.
    pub(crate) fn of_controller(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            version: 0,
            pid: 0,
            grpc: true,
            guest: None,
        }
    }

    /// Describes the address for messages.
    pub(crate) fn place(&self) -> String {
        let socket = self.socket.display();
        match self.guest {
            None => socket.to_string(),
            Some(Guest { cid: None, port }) => format!("{socket}, port {port}"),
            Some(Guest {
                cid: Some(cid),
                port,
            }) => format!("vsock {cid}:{port}"),
        }
    }

    pub(crate) fn with_pid(&self, pid: u32) -> Self {
        Self {
            pid,
            ..self.clone()
        }
    }

    /// Removes the socket of a killed shim. A VM monitor's socket does not belong to the shim.
    pub(crate) fn forget(&self) {
        if self.guest.is_none() {
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    pub(crate) fn has_come_up(&self) -> bool {
        self.pid != 0
    }

    /// Whether its socket is missing or has no listener.
    pub(crate) fn is_gone(&self) -> bool {
        let connected = UnixStream::connect(&self.socket);
        let gone = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
        connected.is_err_and(|error| gone.contains(&error.kind()))
    }

    /// Whether its process is alive; a zombie is not.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = Pid::from_raw(self.pid as i32);
        let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec::default())) == Ok(0)
    }
}

/// An address in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guest {
    /// The guest's CID; `None` if it is reached by its monitor's socket.
    pub(crate) cid: Option<u32>,
    pub(crate) port: u32,
}

/// Parses the part of an address after `://`: a socket, an address in a guest, or both.
pub(crate) fn place(transport: &str, rest: &str) -> Option<(PathBuf, Option<Guest>)> {
    // The rest has options of an existing stream.
    let rest = rest.split('?').next().unwrap_or_default();
    let absolute = |path: &str| path.starts_with('/').then(|| PathBuf::from(path));
    let (first, port) = match transport {
        "unix" => return Some((absolute(rest)?, None)),
        "vsock" | "hvsock" => rest.rsplit_once(':')?,
        _ => return None,
    };
    let port = port.parse().ok()?;
    if transport == "hvsock" {
        return Some((absolute(first)?, Some(Guest { cid: None, port })));
    }
    let cid = first.parse().ok()?;
    let is_guest = cid == LOCAL || (FIRST_GUEST..u32::MAX).contains(&cid);
    is_guest.then_some((
        PathBuf::new(),
        Some(Guest {
            cid: Some(cid),
            port,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn addresses_name_places_and_protocols() {
        for (address, protocol, shown, grpc) in [
            ("unix:///run/x", "ttrpc", "/run/x", false),
            ("grpc+unix:///run/x", "", "/run/x", true),
            ("vsock://3:1024", "ttrpc", "vsock 3:1024", false),
            ("vsock://3:1024", "grpc", "vsock 3:1024", true),
            ("ttrpc+vsock://1:7", "", "vsock 1:7", false),
            ("grpc+vsock://4294967294:1", "", "vsock 4294967294:1", true),
            ("hvsock:///run/vm:s:9", "", "/run/vm:s, port 9", false),
            ("ttrpc+hvsock:///run/v:9", "", "/run/v, port 9", false),
        ] {
            let endpoint = Endpoint::at(address, protocol, 2).unwrap();
            assert_eq!(endpoint.place(), shown, "{address}");
            assert_eq!(endpoint.grpc, grpc, "{address}");
        }
        for refused in [
            // The CIDs of the host side are not guests.
            "vsock://0:1",
            "vsock://2:1024",
            "vsock://4294967295:1",
            "vsock://3",
            "vsock://3:x",
            "vsock://3:4294967296",
            "vsock:///run/x:1",
            "hvsock://relative:1",
            "hvsock:///run/x",
            "tcp://127.0.0.1:1",
            "thrift+unix:///run/x",
            "unix://x",
        ] {
            assert!(Endpoint::at(refused, "ttrpc", 2).is_none(), "{refused}");
        }
    }
}
