//! Bundles, arguments and surroundings that are wrong: one line that names the field and the reason, by the exit
//! code that engines know, also in the log that they read, and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

mod bundles;
mod judge;
mod programs;
#[allow(dead_code, reason = "it is shared with the tests of escapes")]
#[path = "../escapes/rig.rs"]
mod rig;
mod surroundings;
