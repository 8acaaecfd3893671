//! Hostname of a pod.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};
use crate::spec::Spec;

/// Returns the hostname in the pod's UTS namespace, or the host's; a guest has to be told it.
pub(crate) fn of(container: &Spec) -> Result<String> {
    let namespace = container.namespace("uts");
    let join = || -> Result<Vec<u8>> {
        if let Some(namespace) = &namespace {
            let file = File::open(namespace).map_err(Error::file("opening", namespace))?;
            move_into_link_name_space(
                file.as_fd(),
                Some(LinkNameSpaceType::HostNameAndNISDomainName),
            )
            .map_err(|errno| Error::file("entering", namespace)(errno.into()))?;
        }
        let name = Path::new("/proc/sys/kernel/hostname");
        orlop_fs::read_file(name, orlop_fs::SMALL_FILE).map_err(Error::file("reading", name))
    };
    // A separate thread enters the namespace, so that this one stays in its own.
    let name = std::thread::scope(|scope| scope.spawn(join).join());
    let name =
        name.unwrap_or_else(|_| Err(Error::Failed("cannot read the hostname of the pod".into())))?;
    Ok(String::from_utf8_lossy(&name).trim().to_owned())
}
