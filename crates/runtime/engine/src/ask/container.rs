//! A container as `CreateContainer` and `RestorePod` ask for it.

use std::path::{Component, Path};

use orlop_cri_api::v1::ContainerConfig;

use crate::error::{Error, Result};
use crate::record::names::ContainerName;

/// More environment variables than any program looks at.
const MAX_ENVS: usize = 100_000;

/// A container that can be made, as far as that can be told without its pod, its image and the node:
/// the rest is judged by [`Plan`](crate::container::plan::Plan), before anything is made, too.
#[derive(Debug)]
pub struct ContainerAsk {
    /// The request, word for word.
    pub config: ContainerConfig,
}

impl ContainerAsk {
    /// Reads a request. Nothing is made for one that is refused.
    pub fn read(config: Option<ContainerConfig>) -> Result<Self> {
        let config = config.ok_or_else(|| Error::invalid("config", "is missing"))?;
        ContainerName::check(&config)?;
        check(&config)?;
        Ok(Self { config })
    }
}

fn check(config: &ContainerConfig) -> Result<()> {
    if config
        .image
        .as_ref()
        .is_none_or(|image| image.image.is_empty())
    {
        return Err(Error::invalid("config.image.image", "is empty").into());
    }
    let log_path = Path::new(&config.log_path);
    if !log_path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        let problem = format!("{log_path:?} must be below the pod's log directory");
        return Err(Error::invalid("config.log_path", problem).into());
    }
    if config.envs.len() > MAX_ENVS {
        let problem = format!(
            "{} environment variables; at most {MAX_ENVS} are allowed",
            config.envs.len()
        );
        return Err(Error::invalid("config.envs", problem).into());
    }
    Ok(())
}
