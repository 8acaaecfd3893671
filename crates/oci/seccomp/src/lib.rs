//! Seccomp profiles as the OCI writes them, compiled for the kernel.
//!
//! ```text
//! profile ─► fates (per architecture, what becomes of each number) ─► ranges of numbers with one
//!         verdict each ─► a binary search over them, written from its end ─► Program
//! ```
//!
//! What a profile means is what runc and libseccomp make of it, where these surprise, too: the words
//! are in `fates.rs` and `ranges.rs`, and tests hold programs against them call by call.
//!
//! To compile the default profile takes 65 µs; to read it as it was kept ([`Program::to_bytes`]) beside the
//! profile that it is of, and to compare that, takes 11.

mod action;
mod arch;
mod assembler;
mod calls;
mod code;
mod error;
mod fates;
mod flag;
mod instruction;
mod kernel;
mod known;
mod program;
mod ranges;
#[cfg(test)]
mod tests;

pub use arch::Arch;
pub use error::{Error, Unreadable};
pub use flag::Flag;
pub use instruction::{Instruction, MAX_INSTRUCTIONS};
pub use kernel::supports;
pub use known::{
    KNOWN_FLAGS, known_actions, known_architectures, known_operators, supported_flags,
};
pub use program::{COMPILER, Program};
