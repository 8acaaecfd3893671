//! The creators of pod sandboxes, which containerd calls controllers.

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

/// Returns the path of the pod configuration from the client, next to the specification.
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
