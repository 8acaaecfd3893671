//! containerd's Sandbox API on our socket: pods of a containerd whose handler names us as its sandboxer.
//!
//! The [`Controller`] has our shim (`containerd-shim-orlop-v1`) make each sandbox and answers where its tasks are
//! served, which is at that shim; what it knows of a sandbox is a directory with the shim's address, so that the
//! daemon may be replaced at any moment. The [`Store`] keeps what containerd's clients put into it.
//!
//! Messages pass as they are: of most, every field goes on to the shim or comes from there.

mod codec;
mod controller;
mod names;
mod sandboxes;
mod service;
mod shim;
mod store;

pub use controller::Controller;
pub use sandboxes::Sandboxes;
pub use store::Store;
