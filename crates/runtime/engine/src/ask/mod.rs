//! Validated requests. Everything that can be validated before anything is made is validated here; later
//! steps use the result. The message itself is kept only for the record and for responses.

mod container;
mod files;
mod pod;

pub use container::ContainerAsk;
pub use files::FilesAsk;
pub use pod::{PodAsk, PodParts};
