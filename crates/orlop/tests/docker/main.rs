//! The docker backend on a real Docker Engine.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod disk;
mod engine_away;
mod guarded;
mod logs;
mod migration;
mod missed_events;
mod networks;
mod observe;
mod pods;
mod sessions;
mod signatures;
mod streams;
mod world;
