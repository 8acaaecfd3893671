//! What users who are not root can run, and what is refused them in runc's words.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try it on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something fails"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

mod cgroups;
mod ids;
mod life;
mod mounts;
mod refused;
mod session;
mod systemd;
mod user;
