//! Cgroups of this machine and of its systemd.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod live;
mod systemd;
