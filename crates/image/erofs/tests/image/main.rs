//! Images are what they were told to be: to the kernel that mounts them, to the reader, and to the tools
//! of EROFS.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "what a test makes is there, and it reads what it wrote itself"
)]

mod fsck;
mod hostile;
mod kernel;
mod large;
mod model;
mod mounts;
mod overlay;
mod random;
mod reader;
mod sparse;
mod trees;
