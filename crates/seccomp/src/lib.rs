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
//! There is no store of programs by profile. To compile the default profile takes 65 µs, no more than
//! to find a kept one by a hash that cannot be made to collide. What belongs to one container can be
//! kept with it ([`Program::to_bytes`]), for those who enter it later.

mod action;
mod arch;
mod assembler;
mod calls;
mod code;
mod error;
mod fates;
mod instruction;
mod kernel;
mod known;
mod program;
mod ranges;
#[cfg(test)]
mod tests;

pub use arch::Arch;
pub use error::{Error, Unreadable};
pub use instruction::{Instruction, MAX_INSTRUCTIONS};
pub use kernel::supports;
pub use known::{
    KNOWN_FLAGS, known_actions, known_architectures, known_operators, supported_flags,
};
pub use program::{Flag, Program};
