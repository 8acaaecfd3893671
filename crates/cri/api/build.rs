//! Compiles the interface definitions with protox: no protoc is needed.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use prost::Message;

/// Messages whose `Debug` is written by hand in `src/redact.rs`.
const SECRETIVE: [&str; 5] = [
    "runtime.v1.AuthConfig",
    "runtime.v1.KeyValue",
    "runtime.v1.ExecSyncRequest",
    "runtime.v1.ExecSyncResponse",
    "runtime.v1.ExecRequest",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut files = protos(Path::new("proto/runtime/v1"))?;
    files.extend(protos(Path::new("proto/orlop/v1"))?);
    let descriptors = protox::compile(&files, ["proto"])?;

    // The JSON mapping looks fields up by name; comments would only make it bigger.
    let mut bare = descriptors.clone();
    for file in &mut bare.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(out, bare.encode_to_vec())?;

    let mut config = prost_build::Config::new();
    config.enable_type_names();
    let calls = env::var_os("CARGO_FEATURE_CALLS").is_some();
    tonic_prost_build::configure()
        .build_server(calls)
        .build_client(calls)
        .bytes("runtime.v1.ExecSyncResponse")
        .bytes("orlop.v1")
        .extern_path(".runtime.v1.Metric", "crate::v1::Metric")
        .skip_debug(SECRETIVE)
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}

fn protos(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
