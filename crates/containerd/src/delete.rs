//! `delete`: cleans up after a container whose server is dead, or could not make it. The keeper may still
//! live, and the container with it.

use std::io::Write as _;
use std::path::Path;

use orlop_ttrpc::Writer;
use orlop_wire::{Delete, List};

use crate::Result;
use crate::arguments::Arguments;
use crate::files::unknown;
use crate::keeper::{Keeper, LIMIT};
use crate::options::Options;
use crate::place::{Place, checked};
use crate::rootfs;
use crate::runtime::Runtime;
use crate::spec::Spec;
use crate::tasks::{Exit, timestamp};

/// No root file system is more mounts than that.
const MOUNTS: usize = 16;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Beside the bundle in which containerd works, as it says.
    let here = crate::start::bundle(arguments)?;
    let bundle = match here.parent() {
        Some(above) => above.join(&arguments.id),
        None => here,
    };
    let spec = Spec::read(&bundle).unwrap_or_default();
    let group = spec.group().unwrap_or(&arguments.id);
    checked(group)?;
    let place = Place::of(&arguments.address, &arguments.namespace, group);
    let locked = place.lock()?;
    let is_served = place.is_served();
    end(arguments, &place, &bundle);
    if !is_served {
        let keeper = Keeper::find(&place.keeper()).ok();
        let is_pod = arguments.id == group;
        let is_idle = keeper.as_deref().is_none_or(has_nothing);
        if is_pod || is_idle {
            if let Some(keeper) = keeper {
                keeper.end();
            }
            crate::pod::remove_leftover(&place);
            place.remove()?;
        }
    }
    drop(locked);
    rootfs::unmount_all(&bundle.join("rootfs"), MOUNTS);
    let exit = Exit::now(128 + libc::SIGKILL as u32);
    let answer = Writer::default()
        .number(1, pid_of(&bundle).into())
        .number(2, exit.code.into())
        .message(3, &timestamp(exit.at_ns));
    let mut out = std::io::stdout();
    out.write_all(&answer.done())
        .and_then(|()| out.flush())
        .map_err(|error| unknown(format!("answering containerd: {error}")))
}

fn has_nothing(keeper: &Keeper) -> bool {
    let list = keeper.call("asking for the pod's containers", &List {}, &[], LIMIT);
    list.is_ok_and(|(list, _)| list.containers.is_empty())
}

/// Ends the container, by its keeper where that lives.
fn end(arguments: &Arguments, place: &Place, bundle: &Path) {
    let id = &arguments.id;
    let runtime = Runtime::noted(bundle);
    if runtime.is_none() && !bundle.join("init.pid").exists() {
        // It never came to a runtime.
        return;
    }
    let runtime = runtime.or_else(|| Runtime::of(&Options::default(), &arguments.namespace).ok());
    let Some(runtime) = runtime else {
        return;
    };
    let request = Delete {
        container: id.clone(),
        call: Some(runtime.delete(id, bundle)),
    };
    let by_keeper = Keeper::find(&place.keeper()).and_then(|keeper| {
        keeper.call("deleting a container", &request, &[], crate::runtime::LIMIT)
    });
    if by_keeper.is_err()
        && let Err(status) = runtime.delete_directly(id)
    {
        eprintln!(
            "containerd-shim-orlop-v1: deleting {id}: {}",
            status.message
        );
    }
}

fn pid_of(bundle: &Path) -> u32 {
    let pid = orlop_disk::read_text(bundle.join("init.pid"), 32);
    pid.ok()
        .and_then(|pid| pid.trim().parse().ok())
        .unwrap_or(0)
}
