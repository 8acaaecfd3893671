//! Compiles the interface definitions with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/nri/v1alpha1/api.proto"], ["proto"])?;
    let mut config = prost_build::Config::new();
    // The same message is the same bytes, and logs do not depend on the order of a hash.
    config.btree_map(["."]);
    config.compile_fds(descriptors)?;
    Ok(())
}
