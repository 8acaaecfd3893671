//! Local state that the manager prepares at its start.

use std::path::Path;

use super::node_facts::Machine;
use crate::cgroups::Cgroups;
use crate::error::StartError;
use crate::image_manager::{Providers, PullRecords};
use crate::logs::LogLinks;
use crate::options::{Options, UserNamespaceOptions};
use crate::pod_input::PodInput;
use crate::pod_worker::load_all;
use crate::userns::{UserNamespaceError, UserNamespaces, ids_of_node};

/// Local state that the manager prepares at its start.
pub(super) struct Local {
    pub(super) machine: Machine,
    pub(super) cgroups: Cgroups,
    pub(super) user_namespaces: UserNamespaces,
    pub(super) providers: Providers,
    pub(super) pulls: PullRecords,
    pub(super) log_links: LogLinks,
    pub(super) known: Vec<PodInput>,
}

impl Local {
    /// Reads and creates it. Blocks.
    pub(super) fn prepare(options: &Options) -> Result<Self, StartError> {
        for dir in [
            options.root_dir.join("pods"),
            options.root_dir.join("checkpoints"),
            options.pod_logs_dir.clone(),
        ] {
            make(&dir)?;
        }
        let setting = |why: String| StartError::Setting(why);
        let images = &options.images;
        Ok(Self {
            machine: Machine::look(&options.node),
            cgroups: Cgroups::new(options.cgroups.clone()).map_err(|e| setting(e.to_string()))?,
            providers: Providers::read(
                images.credential_provider_config.as_deref(),
                images.credential_provider_bin_dir.as_deref(),
            )
            .map_err(setting)?,
            pulls: pulls(options)?,
            user_namespaces: user_namespaces(options).map_err(|e| setting(e.to_string()))?,
            log_links: LogLinks::new(options.container_logs_dir.as_deref()),
            known: load_all(&options.root_dir),
        })
    }
}

fn pulls(options: &Options) -> Result<PullRecords, StartError> {
    let policy = options.images.credential_policy.clone();
    PullRecords::open(&options.root_dir, policy).map_err(|source| StartError::Directory {
        path: options.root_dir.join("image_manager"),
        source,
    })
}

fn user_namespaces(options: &Options) -> Result<UserNamespaces, UserNamespaceError> {
    let UserNamespaceOptions {
        ids_per_pod,
        max_pods,
    } = options.user_namespaces;
    let ids = ids_of_node(ids_per_pod)?;
    UserNamespaces::open(&options.root_dir, ids, ids_per_pod, max_pods)
}

fn make(dir: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(dir).map_err(|source| StartError::Directory {
        path: dir.to_owned(),
        source,
    })
}
