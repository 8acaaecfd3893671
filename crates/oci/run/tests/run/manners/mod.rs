//! What others rely on of runc and is written in no specification: what is inherited, found, kept and said.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try it on.

use crate::rig::Said;
mod binds;
mod debug;
mod given;
mod hooks;
mod life;
mod mounts;
mod namespaces;
mod process;

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
