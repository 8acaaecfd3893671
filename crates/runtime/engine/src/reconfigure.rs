//! Change of the configuration without a restart.

use std::sync::Arc;

use crate::blocking;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::rdt;
use crate::node::runtimes::Runtimes;
use crate::start::of_images;

impl Engine {
    /// Applies another configuration to everything that begins from now on. An unusable one is an error and
    /// changes nothing. Directories and the cgroup driver do not change.
    pub async fn reconfigure(&self, mut config: Config) -> Result<()> {
        let Self(node) = self;
        let old = node.config();
        // Everything that can fail comes before the first change.
        let runtimes = if has_other_runtimes(&old, &config) {
            let found = Runtimes::find(&config, node.cgroups.driver()).await;
            node.cgroups.remove_trials().await;
            Some(found?)
        } else {
            None
        };
        let nri = node.nri.prepare(config.nri.as_ref()).await;
        let nri = nri.map_err(|error| Error::Precondition(format!("nri.socket: {error}")))?;
        let streams = if config.streaming == old.streaming {
            None
        } else {
            let (server, streaming) = (node.streams()?, config.streaming.clone());
            let prepared = blocking(move || {
                let prepared = streaming.prepare(&server).map_err(Error::Precondition)?;
                Ok((server, prepared))
            });
            Some(prepared.await?)
        };
        // The last step that can fail: it changes resctrl groups itself.
        let (before, record) = (Arc::clone(&old), node.paths.rdt_groups());
        let mut classes = config.containers.policy.rdt.take();
        let others = config.containers.policy.rdt_classes.clone();
        config.containers.policy.rdt = blocking(move || {
            let before = before.containers.policy.rdt.as_ref();
            rdt::change(before, &mut classes, &others, &record)?;
            Ok(classes)
        })
        .await?;
        if let Some((server, prepared)) = streams {
            server.change(prepared);
        }
        if let Some(runtimes) = runtimes {
            node.runtimes.replace(runtimes, &node.pods.all());
        }
        node.exec_outputs
            .resize(config.containers.exec_output_memory);
        let images = of_images(&config, &node.cgroups);
        node.images.reconfigure(images).await;
        node.networks.reconfigure(config.network.clone()).await;
        node.nri.reconfigure(config.nri.clone(), nri).await;
        node.events.keep(config.event_backlog);
        node.settings.replace(config);
        Ok(())
    }
}

/// Whether the runtimes, or the places where they are looked for, differ.
fn has_other_runtimes(old: &Config, new: &Config) -> bool {
    let parts = |config: &Config| {
        (
            config.runtimes.clone(),
            config.default_runtime.clone(),
            config.keeper.clone(),
        )
    };
    parts(old) != parts(new)
}
