//! containerd's Sandbox API on our socket: pods of a containerd whose handler names us as its sandboxer.
//!
//! The [`Controller`] has our shim (`containerd-shim-orlop-v1`) make each sandbox and answers where its tasks are
//! served, which is at that shim; what it knows of a sandbox is a directory with the shim's address, so that the
//! daemon may be replaced at any moment. The [`Store`] keeps what containerd's clients put into it.

mod controller;
mod names;
mod sandboxes;
mod shim;
mod store;

pub use controller::Controller;
pub use sandboxes::Sandboxes;
pub use server::controller_server::ControllerServer;
pub use server::store_server::StoreServer;
pub use store::Store;

use tonic::Request;

/// The servers, generated from the definitions of `orlop-containerd-api`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod server {
    include!(concat!(
        env!("OUT_DIR"),
        "/containerd.services.sandbox.v1.rs"
    ));
}

/// The containerd namespace of a call, and its message.
fn parts<T>(request: Request<T>) -> (String, T) {
    let namespace = request.metadata().get("containerd-namespace");
    let namespace = namespace.and_then(|name| name.to_str().ok());
    let namespace = namespace.unwrap_or("default").to_owned();
    (namespace, request.into_inner())
}
