//! What others rely on of runc and is written in no specification: what is inherited, found, kept and said.
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

mod binds;
mod debug;
mod given;
mod hooks;
mod life;
mod mounts;
mod namespaces;
mod process;
#[allow(dead_code, reason = "others use the rest of it")]
#[path = "../escapes/rig.rs"]
mod rig;

use rig::Said;

/// The output of what had to go well.
fn out(said: Said) -> String {
    assert!(said.ok, "{said:?}");
    said.out
}

/// The words of what had to be refused.
fn refusal(said: Said) -> String {
    assert!(!said.ok, "{said:?}");
    format!("{}{}", said.err, said.out)
}
