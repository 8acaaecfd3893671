//! `delete`: cleans up after a container whose server is dead or could not create it. The keeper and the container may
//! still run.

use std::path::Path;

use orlop_containerd_api::Message;
use orlop_keeper_protocol::Delete;

use crate::arguments::Arguments;
use crate::cgroup;
use crate::error::Result;
use crate::keeper::Keeper;
use crate::place::{Made, Place, checked};
use crate::print::print;
use crate::rootfs;
use crate::spec::Spec;
use crate::tasks::Exit;

/// Maximum number of mounts of a root filesystem.
const MOUNTS: usize = 16;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The container's bundle is next to the one that containerd runs this program in.
    let here = arguments.bundle()?;
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
    // containerd only requests this for the pod; its containers are removed with it.
    let is_pod = !is_served && arguments.id == group;
    for (id, made) in place.noted() {
        if is_pod || id == arguments.id {
            end(&place, &id, &made);
        }
    }
    if !is_served && place.noted().is_empty() {
        end_keeper(&place);
        place.remove()?;
    }
    drop(locked);
    for (place, _locked) in Place::abandoned() {
        end_former(&place);
        place.remove()?;
    }
    let exit = Exit::now(128 + libc::SIGKILL as u32);
    let answer = exit.delete_response(pid_of(&bundle)).encode_to_vec();
    print(&answer)
}

/// Ends the keeper and its processes that a killed server has left behind. No other keeper gets their events.
pub(crate) fn end_former(place: &Place) {
    for (id, made) in place.noted() {
        end(place, &id, &made);
    }
    end_keeper(place);
}

fn end_keeper(place: &Place) {
    // A keeper holds this lock during its setup, and listens afterwards.
    let _alone = place.lock_keeper();
    if let Ok(keeper) = Keeper::find(&place.keeper()) {
        keeper.end();
    }
    let cgroup = orlop_fs::read_text(place.cgroup_note(), orlop_fs::SMALL_FILE);
    cgroup::end(&cgroup.unwrap_or_default());
}

/// Ends a container, through its keeper if that is alive.
fn end(place: &Place, id: &str, made: &Made) {
    let Made {
        bundle, runtime, ..
    } = made;
    let request = Delete {
        container: id.to_owned(),
        call: Some(runtime.delete(id, bundle)),
    };
    // On failure, the steps below clean up.
    let _ = Keeper::find(&place.keeper()).and_then(|keeper| {
        keeper.call("deleting a container", &request, &[], crate::runtime::LIMIT)
    });
    // The keeper may be dead, or may not have finished creating the container.
    made.end_leftover(id);
    rootfs::unmount_all(&bundle.join("rootfs"), MOUNTS);
    place.forget(id);
}

fn pid_of(bundle: &Path) -> u32 {
    let pid = orlop_fs::read_text(bundle.join("init.pid"), 32);
    pid.ok()
        .and_then(|pid| pid.trim().parse().ok())
        .unwrap_or(0)
}
