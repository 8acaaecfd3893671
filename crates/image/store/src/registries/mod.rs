//! `registries.conf`: resolves image names to registries and mirrors, in the format of containers-registries.conf(5).

mod alias;
mod document;
mod files;
mod merged;
mod names;
mod route;
mod scope;
mod short_name;

pub(crate) use document::{Document, FILES, Pulls};
pub use files::RegistriesFile;
pub(crate) use merged::Registries;
pub(crate) use names::{is_id, name_meant, names_here, needs_file};
pub(crate) use route::{Asking, Source};
pub use short_name::Rule;
