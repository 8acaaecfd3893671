//! Compiles the CRI definition with protox: no protoc is needed.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = [Path::new("proto/runtime/v1/api.proto")];
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        .build_server(true)
        .build_client(true)
        .bytes("runtime.v1.ExecSyncResponse")
        .compile_fds(descriptors)?;
    Ok(())
}
