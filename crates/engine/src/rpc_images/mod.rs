//! One file per call of `orlop.v1.Images`.

pub mod collect_garbage;
pub mod export_images;
pub mod import_images;
pub mod judge_image;
pub mod verify_images;
pub mod watch_pulls;
