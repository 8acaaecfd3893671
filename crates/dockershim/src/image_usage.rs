//! The disk usage of the images in the Docker Engine, cached for a short time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{FilesystemIdentifier, FilesystemUsage, UInt64Value};
use parking_lot::Mutex;

use crate::clock;
use crate::docker::Docker;
use crate::engine_info::EngineInfo;
use crate::error::{Error, Result};

/// How long a result is fresh. Engines before Docker 23 also count all containers, which is slow.
const SERVES: Duration = Duration::from_secs(30);

/// The disk usage that the engine last reported.
#[derive(Debug)]
pub(crate) struct ImageUsage {
    docker: Arc<Docker>,
    info: EngineInfo,
    last: Mutex<Option<(Instant, FilesystemUsage)>>,
    alone: tokio::sync::Mutex<()>,
}

impl ImageUsage {
    pub(crate) fn new(docker: Arc<Docker>, info: EngineInfo) -> Self {
        Self {
            docker,
            info,
            last: Mutex::default(),
            alone: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the images' file system and the space they use on it.
    pub(crate) async fn get(&self) -> Result<FilesystemUsage> {
        let _alone = self.alone.lock().await;
        if let Some((at, usage)) = &*self.last.lock()
            && at.elapsed() < SERVES
        {
            return Ok(usage.clone());
        }
        let used = self.docker.image_usage().await;
        let used = used.map_err(Error::engine("getting the disk usage of images"))?;
        let root = self.info.get().await?.docker_root_dir.clone();
        // The engine does not count inodes; these are those of the whole file system.
        let inodes = rustix::fs::statvfs(root.as_str()).ok();
        let usage = FilesystemUsage {
            timestamp: clock::now(),
            inodes_used: inodes.map(|stat| UInt64Value {
                value: stat.f_files.saturating_sub(stat.f_ffree),
            }),
            fs_id: Some(FilesystemIdentifier { mountpoint: root }),
            used_bytes: Some(UInt64Value { value: used }),
        };
        let mut last = self.last.lock();
        *last = Some((Instant::now(), usage.clone()));
        Ok(usage)
    }
}
