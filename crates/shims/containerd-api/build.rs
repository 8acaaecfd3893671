//! Compiles the interface definitions with protox: no protoc is needed.

const FILES: [&str; 15] = [
    "containerd/events/task.proto",
    "containerd/runc/v1/oci.proto",
    "containerd/runtime/bootstrap/v1/bootstrap.proto",
    "containerd/runtime/sandbox/v1/sandbox.proto",
    "containerd/services/events/v1/events.proto",
    "containerd/services/sandbox/v1/sandbox.proto",
    "containerd/services/streaming/v1/streaming.proto",
    "containerd/services/version/v1/version.proto",
    "containerd/task/v3/shim.proto",
    "containerd/types/transfer/streaming.proto",
    "containerd/types/types.proto",
    "containerd/v1/types/task.proto",
    "io/containerd/cgroups/v1/metrics.proto",
    "io/containerd/cgroups/v2/metrics.proto",
    "runtimeoptions/v1/api.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    prost_build::Config::new()
        .btree_map(["."])
        .enable_type_names()
        // `Any` and `Timestamp` are all that prost-types would be there for.
        .compile_well_known_types()
        .extern_path(".google.protobuf.Empty", "()")
        .disable_comments(["google"])
        .include_file("api.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
