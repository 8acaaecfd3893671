//! `sigstoreSigned`: what it asks for, whom it trusts, and whether an image is signed so.

mod document;
mod judge;
#[cfg(test)]
mod tests;
mod trust;

pub(crate) use document::SigstoreSigned;
