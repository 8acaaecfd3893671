//! Requests as what they ask for. Whatever can be judged before anything is made is judged here; what
//! is made afterwards is made of what was understood. The message itself is kept for the record and
//! for answers only.

mod container;
mod files;
mod pod;

pub use container::ContainerAsk;
pub use files::FilesAsk;
pub use pod::{PodAsk, PodParts};
