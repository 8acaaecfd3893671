//! Streams that a shim serves itself, instead of fifos (`io = "streaming"`).

use orlop_cri_api::v1::ExecRequest;
use orlop_streaming::TerminalSize;
use orlop_streaming::client::{ClientOptions, ClientStreams, exec};
use orlop_testkit::machine::has_program;
use orlop_testkit::{Node, SandboxController, Whims, skip_unless};
use tokio::io::AsyncReadExt as _;

use crate::controllers::{GUEST, called, guest_dir, remote};
use crate::sandboxes;
use crate::world::{World, world};

/// In the table of the handler, which is the last one of the drop-ins.
const SERVED: &str = "io = \"streaming\"\n";
const SERVICE: &str = "containerd.services.streaming.v1.Streaming";

/// What a command that is told something prints, and its exit code.
pub(crate) async fn told(
    world: &World,
    id: &str,
    words: &[&str],
    tty: bool,
    input: &[u8],
) -> (i32, Vec<u8>) {
    let request = ExecRequest {
        container_id: id.to_owned(),
        cmd: words.iter().map(ToString::to_string).collect(),
        stdin: true,
        stdout: true,
        stderr: !tty,
        tty,
    };
    let answer = world.cri.runtime().exec(request).await;
    let url = answer.expect("an URL").into_inner().url;
    let (mut ours, theirs) = tokio::io::duplex(1 << 10);
    let streams = ClientStreams {
        stdin: Some(Box::new(std::io::Cursor::new(input.to_vec()))),
        stdout: Some(Box::new(theirs)),
        stderr: (!tty).then(|| Box::new(tokio::io::sink()) as _),
        resize: tty.then(|| {
            tokio::sync::watch::channel(TerminalSize {
                width: 80,
                height: 24,
            })
            .1
        }),
    };
    let mut output = Vec::new();
    let options = ClientOptions::default();
    let (code, read) = tokio::join!(exec(&url, &options, streams), ours.read_to_end(&mut output));
    read.expect("the output");
    (code.expect("a session"), output)
}

/// More than any window goes both ways, and a terminal is one.
async fn carries(world: &World) {
    let running = world.run_script("carries", "sleep 600").await;
    let much: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let (code, came_back) = told(world, &running.id, &["cat"], false, &much).await;
    assert_eq!(code, 0);
    assert_eq!(came_back.len(), much.len());
    assert!(came_back == much, "it came back as something else");
    let script = [
        "sh",
        "-c",
        "test -t 0 && read line && echo $line and all; exit 3",
    ];
    let (code, output) = told(world, &running.id, &script, true, b"told\n").await;
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(
        code == 3 && output.contains("told and all"),
        "{code} {output}"
    );
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
}

#[tokio::test]
async fn a_shim_may_serve_the_streams_itself() {
    skip_unless!(has_program(GUEST));
    for protocol in ["json3", "grpc"] {
        let dir = tempfile::tempdir().expect("a directory");
        let name = format!("containerd-shim-{protocol}-v2");
        let world = world!(called(dir.path(), &name).drop_in(SERVED));
        carries(&world).await;
        sandboxes::lives(world, protocol).await;
    }
}

#[tokio::test]
async fn who_serves_the_tasks_of_a_controller_may_serve_their_streams() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::ServesGrpc);
    let world = world!(remote(dir.path()).drop_in(SERVED));
    carries(&world).await;
    let streams = controller.calls_of(SERVICE);
    assert_eq!(
        streams,
        2 + 3 + 2,
        "of a container, a command and one on a terminal"
    );
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_serves_no_streams_is_named() {
    skip_unless!(has_program(GUEST));
    let world = world!(
        Node::orlop()
            .runtime(GUEST)
            .drop_in("[runtimes.test]")
            .drop_in(SERVED)
    );
    let pod = world.node.pod("mute");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    let error = world.cri.run(&pod_id, &pod, &spec).await;
    let error = error.expect_err("no streams").message().to_owned();
    assert!(error.contains("`io = \"streaming\"`"), "{error}");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");
    world.finish().await;
}
