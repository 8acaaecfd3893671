//! Working by another configuration without a restart.

use std::sync::Arc;

use crate::blocking;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::rdt;
use crate::node::runtimes::Runtimes;
use crate::start::of_images;

impl Engine {
    /// Has all that begins from now on go by another configuration. What can't be used is an error, and
    /// changes nothing. Where things are kept, and how control groups are made, is not looked at.
    pub async fn reconfigure(&self, mut config: Config) -> Result<()> {
        let Self(node) = self;
        let old = node.config();
        // Whatever may fail comes before anything is changed.
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
        // The last that may fail: it changes groups by itself.
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

/// Whether runtimes are others, or are looked for by others' places.
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
