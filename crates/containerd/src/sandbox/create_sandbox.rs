//! `CreateSandbox`: makes the pod.

use std::path::PathBuf;
use std::sync::Arc;

use orlop_ttrpc::{any, text};

use super::config;
use super::files::write_files;
use crate::Result;
use crate::options::Options;
use crate::place::checked;
use crate::pod;
use crate::shim::Shim;
use crate::shm::Rules;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    checked(&id)?;
    let bundle = PathBuf::from(text(request, 2));
    let asked = any(request, 4);
    // A sandbox that no kubelet has asked for has all of its own.
    let asked = asked.as_ref().map_or(&[][..], |any| any.value);
    let shm_size = Rules::told().size(asked, &bundle)?;
    let wanted = config::wanted(&id, asked, &text(request, 5), shm_size)?;
    let options = Options {
        systemd_cgroup: wanted.cgroups_path.contains(':'),
        ..Options::default()
    };
    shim.tasks.lock().add(&id, pod::task(&bundle))?;
    let made = shim
        .make_pod(&id, &wanted, &options)
        .and_then(|_| write_files(shim, asked, &wanted.hostname));
    if let Err(status) = made {
        shim.forget(&id);
        return Err(status);
    }
    Ok(Vec::new())
}
