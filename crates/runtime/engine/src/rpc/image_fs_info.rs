//! `ImageFsInfo`: returns the disk usage of images and writable layers.

use std::path::Path;
use std::sync::Arc;

use orlop_cri_api::v1::{
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, UInt64Value,
};

use crate::blocking;
use crate::clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::node::Node;
use crate::stats::written_paths;

/// Handles the `ImageFsInfo` call.
pub async fn call(Engine(node): &Engine, _: ImageFsInfoRequest) -> Result<ImageFsInfoResponse> {
    let info = node.images.fs_info();
    let images = usage(&info.mountpoint, info.used_bytes, info.inodes_used);
    let containers = if node.config().containers_root == node.config().root {
        // Writable layers are on the same file system as the images.
        images.clone()
    } else {
        of_writable_layers(node).await?
    };
    Ok(ImageFsInfoResponse {
        image_filesystems: vec![images],
        container_filesystems: vec![containers],
    })
}

/// Adds up the usage of all writable layers, as in the statistics. No layer is measured more often for it.
async fn of_writable_layers(node: &Arc<Node>) -> Result<FilesystemUsage> {
    let node = Arc::clone(node);
    blocking(move || {
        let place = &node.config().containers_root;
        let (mut bytes, mut inodes) = (0, 0);
        for container in node.containers.all() {
            let layer = &mut container.meter.lock().layer;
            let used = layer.usage(|| written_paths(&node, &container), place);
            bytes += used.used_bytes.map_or(0, |used| used.value);
            inodes += used.inodes_used.map_or(0, |used| used.value);
        }
        Ok(usage(place, bytes, inodes))
    })
    .await
}

fn usage(place: &Path, bytes: u64, inodes: u64) -> FilesystemUsage {
    FilesystemUsage {
        timestamp: clock::now(),
        fs_id: Some(FilesystemIdentifier {
            mountpoint: place.to_string_lossy().into_owned(),
        }),
        used_bytes: Some(UInt64Value { value: bytes }),
        inodes_used: Some(UInt64Value { value: inodes }),
    }
}
