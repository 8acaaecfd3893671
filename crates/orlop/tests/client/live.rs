//! Live streams of the client commands, on an endpoint that isn't ours.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::thread;

use orlop_testkit::node::{self, interrupt};
use orlop_testkit::{ContainerSpec, Node, machine, skip_unless};

use crate::world::World;

/// The page behind a forwarded port that is about to be listened on.
fn get(address: std::net::SocketAddr, forward: &mut Child) -> String {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => {
                let ended = forward.try_wait().unwrap();
                assert!(ended.is_none(), "it ended with {ended:?}");
                assert!(std::time::Instant::now() < deadline, "{error}");
                thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    };
    stream.write_all(b"GET /a HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, page) = answer.split_once("\r\n\r\n").unwrap();
    page.to_owned()
}

#[tokio::test]
async fn streams_reach_the_container_and_come_back() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(node::containerd_program().map(drop));
    let world = World::start(Node::containerd()).await;
    let (cri, client, node, image) = (&world.cri, &world.client, &world.node, &world.image);
    let pod = node.pod("live").own_network();
    let pod_id = cri.run_pod(&pod).await.unwrap();
    // What it reads it says back; it ends with its input.
    let spec = ContainerSpec::new("main", image)
        .shell("while read line; do echo got $line; done; exit 4")
        .with(|config| {
            config.stdin = true;
            config.stdin_once = true;
        });
    let id = cri.run(&pod_id, &pod, &spec).await.unwrap();

    let output = client.run(&["exec", "main", "sh", "-c", "echo out; echo err >&2; exit 6"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(
        (&output.stdout[..], &output.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );

    // More than fits in any buffer, and its end.
    let mut echo = client.piped(&["exec", "-i", "main", "cat"]);
    let mut input = echo.stdin.take().unwrap();
    let writer = thread::spawn(move || input.write_all(&vec![b'x'; 3 << 20]).unwrap());
    let output = echo.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.len(), 3 << 20);
    assert!(output.status.success());

    // A port of the pod.
    cri.exec(
        &id,
        &[
            "sh",
            "-c",
            // The server goes into the background before it listens.
            "mkdir /www; echo ahoy > /www/a; httpd -p 8088 -h /www
             until wget -q -O /dev/null http://127.0.0.1:8088/a; do sleep 0.05; done",
        ],
    )
    .await
    .unwrap();
    let mut forward = client.piped(&["port-forward", &pod_id, ":8088"]);
    let mut line = String::new();
    BufReader::new(forward.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.split(' ').nth(2).unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /a HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ahoy\n"), "{answer}");
    interrupt(&forward);
    assert!(
        forward.wait().unwrap().success(),
        "an interrupt ends it well"
    );

    // Whoever starts one may look away at once: the ports stay.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let local = free.local_addr().unwrap();
    drop(free);
    let ports = format!("{}:8088", local.port());
    let unread = || std::io::pipe().unwrap().1;
    let mut forward = client
        .command(&["port-forward", &pod_id, &ports])
        .stdout(unread())
        .stderr(unread())
        .spawn()
        .unwrap();
    for round in 0..2 {
        assert_eq!(get(local, &mut forward), "ahoy\n", "connection {round}");
    }
    interrupt(&forward);
    assert!(
        forward.wait().unwrap().success(),
        "an interrupt ends it well"
    );

    // The container's own streams.
    let mut attached = client.piped(&["attach", "-i", "main"]);
    let mut input = attached.stdin.take().unwrap();
    input.write_all(b"one\n").unwrap();
    let mut output = BufReader::new(attached.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "got one\n");
    drop(input);
    assert_eq!(cri.wait_exited(&id).await.exit_code, 4);
    attached.wait().unwrap();
    world.finish().await;
}
