//! `ImageFsInfo`: how much the images take, and where.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, UInt64Value,
};
use parking_lot::Mutex;

use crate::clock;
use crate::error::{Error, Result};
use crate::shim::Shim;

/// Engines before Docker 23 count all containers along, which takes its time.
const SERVES: Duration = Duration::from_secs(30);

/// The last answer.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    last: Mutex<Option<(Instant, FilesystemUsage)>>,
    alone: tokio::sync::Mutex<()>,
}

/// Answers the call.
pub(crate) async fn call(shim: &Shim, _: ImageFsInfoRequest) -> Result<ImageFsInfoResponse> {
    let usage = usage(shim).await?;
    // Writable layers lie on the same file system as the images.
    Ok(ImageFsInfoResponse {
        image_filesystems: vec![usage.clone()],
        container_filesystems: vec![usage],
    })
}

async fn usage(shim: &Shim) -> Result<FilesystemUsage> {
    let _alone = shim.usage.alone.lock().await;
    if let Some((at, usage)) = &*shim.usage.last.lock()
        && at.elapsed() < SERVES
    {
        return Ok(usage.clone());
    }
    let used = shim.docker.image_usage().await;
    let used = used.map_err(Error::engine("getting the disk usage of images"))?;
    let root = shim.info().await?.docker_root_dir.clone();
    // The engine does not count inodes; these are all of the file system.
    let inodes = rustix::fs::statvfs(root.as_str()).ok();
    let usage = FilesystemUsage {
        timestamp: clock::now(),
        inodes_used: inodes.map(|stat| UInt64Value {
            value: stat.f_files.saturating_sub(stat.f_ffree),
        }),
        fs_id: Some(FilesystemIdentifier { mountpoint: root }),
        used_bytes: Some(UInt64Value { value: used }),
    };
    let mut last = shim.usage.last.lock();
    *last = Some((Instant::now(), usage.clone()));
    Ok(usage)
}
