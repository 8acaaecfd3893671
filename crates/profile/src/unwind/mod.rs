//! From the registers of a thread and the end of its stack to who called whom.

mod expression;
mod frame;
#[cfg(test)]
mod fuzzed;
mod index;
mod memory;
mod modules;
mod registers;
mod rows;
mod walk;

pub(crate) use modules::Module;
pub(crate) use registers::{ASKED, Registers};
pub(crate) use walk::Walker;
