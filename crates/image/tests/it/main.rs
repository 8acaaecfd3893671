//! The image library as its users meet it: real registries, real file systems, bad days.

mod pull;
mod support;
