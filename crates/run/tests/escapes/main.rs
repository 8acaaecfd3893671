//! The ways by which containers got out of runc, crun and youki, tried on this runtime: images, volumes and
//! processes of containers that mean harm, while the runtime works on them.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try them on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something fails"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

mod capabilities;
mod console;
mod descriptors;
mod entering;
mod masks;
mod proc;
mod program;
mod races;
mod rig;
