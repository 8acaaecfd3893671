//! Where the processor time of a process goes.
//!
//! ```text
//! the kernel's software clock ──► sample/ ──► unwind/ ──► Stacks ──► names/ ──► output/
//!  registers, a piece of stack     records     addresses            functions   a file
//! ```
//!
//! The process that is looked at is not stopped, needs no frame pointers, and knows nothing of it: the kernel
//! copies the end of the stack of each thread that is at work, and what the program brings for its panics
//! (`.eh_frame`) says how to read it.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod bytes;
mod elf;
mod error;
#[cfg(test)]
mod fuzzed;
mod maps;
mod names;
mod output;
mod profile;
mod sample;
mod stacks;
mod text;
mod unwind;

pub use error::Error;
pub use names::{Named, Names};
pub use output::{Format, write};
pub use profile::{Profile, Wanted, take};
pub use stacks::{Stack, Stacks};
