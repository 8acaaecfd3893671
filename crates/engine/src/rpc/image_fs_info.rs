//! `ImageFsInfo`: how much the images take, and where.

use orlop_cri::v1::{
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, UInt64Value,
};

use crate::clock;
use crate::engine::Engine;
use crate::error::Result;

/// Answers the call.
pub async fn call(Engine(node): &Engine, _: ImageFsInfoRequest) -> Result<ImageFsInfoResponse> {
    let info = node.images.fs_info();
    let usage = FilesystemUsage {
        timestamp: clock::now(),
        fs_id: Some(FilesystemIdentifier {
            mountpoint: info.mountpoint.to_string_lossy().into_owned(),
        }),
        used_bytes: Some(UInt64Value {
            value: info.used_bytes,
        }),
        inodes_used: Some(UInt64Value {
            value: info.inodes_used,
        }),
    };
    // Writable layers lie on the same file system as the images.
    Ok(ImageFsInfoResponse {
        image_filesystems: vec![usage.clone()],
        container_filesystems: vec![usage],
    })
}
