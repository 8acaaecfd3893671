//! Handlers of `orlop.v1.Images`, one file per RPC.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub mod collect_garbage;
pub mod export_images;
pub mod fetch_images;
pub mod import_images;
pub mod judge_image;
pub mod list_images_here;
pub mod resolve_image;
pub mod verify_images;
pub mod watch_pulls;
pub mod watch_read_failures;
