//! `sigstoreSigned`: what it asks for, whom it trusts, and whether an image is signed so.

mod document;
mod judge;
mod sources;
#[cfg(test)]
mod tests;
mod trust;

pub(crate) use document::SigstoreSigned;
