//! The user's terminal on the client's side of an interactive session.

mod detach;
mod input;
mod raw;
mod size;

pub use detach::{BadDetachKeys, DetachKeys, Detachable};
pub use input::{Standard, input, output};
pub use raw::{RawMode, restore};
pub use size::{SizeWatch, size};
