//! Container requests of `CreateContainer` and `RestorePod`.

use std::path::{Component, Path};

use orlop_cri_api::v1::ContainerConfig;

use crate::error::{Error, Result};
use crate::record::names::ContainerName;

/// Limit of environment variables; no program uses more.
const MAX_ENVS: usize = 100_000;

/// A validated container request, as far as that needs no pod, image or node.
/// [`Plan`](crate::container::plan::Plan) validates the rest, also before anything is made.
#[derive(Debug)]
pub struct ContainerAsk {
    /// The request, unchanged.
    pub config: ContainerConfig,
}

impl ContainerAsk {
    /// Validates a request. Nothing is made for one that is refused.
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
