//! Who makes what the containers of a pod share, in containerd's words.

mod contract;
mod podsandbox;
mod proxy;
mod resources;
mod sandbox_state;
mod shim;

use std::path::{Path, PathBuf};

use crate::arguments::{Sandboxer, Settings};

pub(crate) use contract::{Asked, Controller};
pub(crate) use proxy::is_one;
pub(crate) use sandbox_state::{SandboxState, our_platform};

/// The file, beside the specification, with the pod as its client has asked for it.
pub(crate) fn config_of(bundle: &Path) -> PathBuf {
    bundle.join("pod.pb")
}

pub(crate) fn of(settings: &Settings) -> Box<dyn Controller + '_> {
    match &settings.sandboxer {
        Sandboxer::Podsandbox => Box::new(podsandbox::Podsandbox(settings)),
        Sandboxer::Shim => Box::new(shim::Shim(settings)),
        Sandboxer::Proxy { address, name } => Box::new(proxy::Proxy {
            address,
            name,
            settings,
        }),
    }
}
