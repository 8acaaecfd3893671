//! orlop-run by its command line. `ORLOP_TEST_OCI_RUNTIME` names another runtime to try most of it on.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod bad_input;
mod checkpoint;
mod engines;
mod escapes;
mod killed;
mod limits;
mod manners;
mod net_devices;
mod rig;
mod rootless;
