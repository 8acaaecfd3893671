//! containerd's Sandbox API on our socket, for a containerd whose handler names us as its sandboxer.
//!
//! The [`Controller`] makes our shim (`containerd-shim-orlop-v1`) create each sandbox and returns the shim's address,
//! where its tasks are served. The state of a sandbox is a directory with that address, so that the daemon can be
//! replaced at any time. The [`Store`] stores what containerd's clients put into it.

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

/// The gRPC servers, generated from the definitions of `orlop-containerd-api`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod server {
    include!(concat!(
        env!("OUT_DIR"),
        "/containerd.services.sandbox.v1.rs"
    ));
}

/// Splits a request into its containerd namespace and message.
fn parts<T>(request: Request<T>) -> (String, T) {
    let namespace = request.metadata().get("containerd-namespace");
    let namespace = namespace.and_then(|name| name.to_str().ok());
    let namespace = namespace.unwrap_or("default").to_owned();
    (namespace, request.into_inner())
}
