//! The docker backend on a real Docker Engine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod engine_away;
mod logs;
mod migration;
mod pods;
mod sessions;
mod world;
