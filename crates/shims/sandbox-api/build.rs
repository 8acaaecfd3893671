//! Generates the servers of containerd's sandbox services; `orlop-containerd-api` has their messages.

const PROTO: &str = "../containerd-api/proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let file = "containerd/services/sandbox/v1/sandbox.proto";
    let descriptors = protox::compile([file], [PROTO])?;
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(
            ".containerd.services.sandbox.v1",
            "::orlop_containerd_api::services::sandbox",
        )
        .extern_path(".containerd.types", "::orlop_containerd_api::types")
        .compile_fds(descriptors)?;
    Ok(())
}
