//! User namespaces that only carry ID mappings.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use orlop_oci_types::IdMapping;

use super::maps::write_maps;
use crate::error::{Error, Result, While};
use crate::sys::{CloneArgs, Side, clone, exit_now, pidfd_signal, wait_for};

/// The user namespaces for ID-mapped mounts, and that of the container.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    container: Option<OwnedFd>,
    container_maps: (Vec<IdMapping>, Vec<IdMapping>),
    made: Vec<(Vec<IdMapping>, Vec<IdMapping>, OwnedFd)>,
}

impl Mappings {
    /// Creates the mappings. `container` is the user namespace to join, if any; the maps are those of a new one.
    pub(crate) fn new(container: Option<OwnedFd>, uids: &[IdMapping], gids: &[IdMapping]) -> Self {
        Self {
            container,
            container_maps: (uids.to_vec(), gids.to_vec()),
            made: Vec::new(),
        }
    }

    /// Returns a namespace with these maps; the container's own if they are empty.
    pub(crate) fn users(&mut self, uids: &[IdMapping], gids: &[IdMapping]) -> Result<&OwnedFd> {
        let (uids, gids) = if uids.is_empty() && gids.is_empty() {
            if let Some(joined) = &self.container {
                return Ok(joined);
            }
            let (uids, gids) = &self.container_maps;
            if uids.is_empty() {
                return Err(Error::new(
                    "idmap mounts need uidMappings, or a container with its own user namespace",
                ));
            }
            (uids.clone(), gids.clone())
        } else {
            (uids.to_vec(), gids.to_vec())
        };
        let known = self
            .made
            .iter()
            .position(|(u, g, _)| *u == uids && *g == gids);
        let at = if let Some(at) = known {
            at
        } else {
            let users = make(&uids, &gids)?;
            self.made.push((uids, gids, users));
            self.made.len() - 1
        };
        Ok(&self.made[at].2)
    }
}

/// Makes a user namespace without processes.
fn make(uids: &[IdMapping], gids: &[IdMapping]) -> Result<OwnedFd> {
    let args = CloneArgs {
        namespaces: libc::CLONE_NEWUSER as u64,
        ..CloneArgs::default()
    };
    let process = match clone(&args)
        .doing(|| "cannot create a user namespace for an ID-mapped mount".to_owned())?
    {
        Side::Parent(process) => process,
        Side::Child => loop {
            // Sleeps until it is killed, by the line below or when its parent exits.
            let _ = rustix::process::set_parent_process_death_signal(Some(
                rustix::process::Signal::KILL,
            ));
            if rustix::process::getppid().is_none() {
                exit_now(0);
            }
            let _ = rustix::thread::nanosleep(&rustix::fs::Timespec {
                tv_sec: 3600,
                tv_nsec: 0,
            });
        },
    };
    let made = write_maps(process.pid, uids, gids).and_then(|()| {
        let path = format!("/proc/{}/ns/user", process.pid);
        File::open(&path).doing(|| path).map(OwnedFd::from)
    });
    let _ = pidfd_signal(process.pidfd.as_fd(), libc::SIGKILL);
    let _ = wait_for(process.pid);
    made
}
