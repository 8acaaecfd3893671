//! Working by another configuration without a restart.

use crate::blocking;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::runtimes::Runtimes;
use crate::start::of_images;

impl Engine {
    /// Has all that begins from now on go by another configuration. What can't be used is an error, and
    /// changes nothing. Where things are kept, and how control groups are made, is not looked at.
    pub async fn reconfigure(&self, config: Config) -> Result<()> {
        let Self(node) = self;
        let runtimes = Runtimes::find(&config, node.cgroups.driver()).await;
        node.cgroups.remove_trials().await;
        let runtimes = runtimes?;
        if config.streaming != node.config().streaming {
            let (streams, streaming) = (node.streams()?, config.streaming.clone());
            blocking(move || {
                streaming
                    .apply(&streams)
                    .map_err(|it| Error::Precondition(it).into())
            })
            .await?;
        }
        node.runtimes.replace(runtimes);
        node.exec_outputs
            .resize(config.containers.exec_output_memory);
        let images = of_images(&config, &node.cgroups);
        node.images.reconfigure(images).await;
        node.networks.reconfigure(config.network.clone()).await;
        node.nri.reconfigure(config.nri.clone()).await;
        node.settings.replace(config);
        Ok(())
    }
}
