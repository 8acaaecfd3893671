//! A configured cri-dockerd with its own Docker Engine.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::docker::{CriDockerd, DockerEngine, Shared};
use crate::image::{ImageBuilder, Layer};
use crate::machine;
use crate::node::builder::NodeBuilder;
use crate::node::directories::{directories, socket};
use crate::node::network;
use crate::scratch::Scratch;

const PAUSE: &str = "testkit.invalid/pause:1";

/// Wrapper of runc that removes oom_score_adj. cri-dockerd lowers it for pause containers, which needs a capability
/// that containers and build machines often lack.
const RUNTIME: &str = r#"#!/bin/sh
previous=
for word; do
    case $previous in --bundle | -b) bundle=$word ;; esac
    previous=$word
done
[ -n "$bundle" ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec RUNC "$@"
"#;

/// Starts the engine and loads the pause image.
pub(super) fn start_engine(builder: &NodeBuilder, scratch: &Scratch) -> DockerEngine {
    let runc = machine::program(&builder.runtime).unwrap_or_else(|e| panic!("{e}"));
    let runtime = scratch.path("runtime");
    let script = RUNTIME.replace("RUNC", &runc.display().to_string());
    std::fs::write(&runtime, script).expect("write a script");
    std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o755)).expect("set its mode");
    let settings = DockerEngine::settings().runtime("test", &runtime.display().to_string());
    let engine = settings.default_runtime("test").start();
    let image = ImageBuilder::new()
        .layer(Layer::busybox())
        .config(
            "Entrypoint",
            serde_json::json!(["/bin/sleep", "2147483647"]),
        )
        .build();
    engine.load(&image, PAUSE);
    engine
}

pub(super) fn command(engine: &DockerEngine, scratch: &Scratch) -> Command {
    let program = CriDockerd::program().unwrap_or_else(|e| panic!("{e}"));
    let (root, _) = directories(scratch);
    let shared = Shared {
        cni_conf: &network::conf_dir(scratch),
        cni_cache: &scratch.path("cni-cache"),
        root: &root,
    };
    CriDockerd::command(&program, engine, PAUSE, shared, &socket(scratch))
}
