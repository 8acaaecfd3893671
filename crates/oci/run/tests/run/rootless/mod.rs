//! What users who are not root can run, and what is refused them in runc's words.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try it on.

mod cgroups;
mod ids;
mod life;
mod mounts;
mod refused;
mod session;
mod systemd;
mod user;
