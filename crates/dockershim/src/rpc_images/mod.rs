//! Calls of `orlop.v1.Images`, one file each, for what the engine supports; the others return an error.
#![allow(clippy::unused_async, reason = "all calls have one shape")]

pub(crate) mod judge_image;
mod of_engine;

pub(crate) use of_engine::{
    collect_garbage, export_images, fetch_images, import_images, list_images_here, resolve_image,
    verify_images, watch_pulls, watch_read_failures,
};
