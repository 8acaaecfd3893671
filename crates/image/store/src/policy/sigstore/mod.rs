//! `sigstoreSigned`: the requirement, its trust roots, and the check of an image.

mod document;
mod judge;
mod sources;
#[cfg(test)]
mod tests;
mod trust;

pub(crate) use document::SigstoreSigned;
