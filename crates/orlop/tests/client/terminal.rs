//! The client commands on a terminal.

use std::time::Duration;

use orlop_testkit::{ContainerSpec, Node, NodeBuilder, PodSpec, Terminal, machine, skip_unless};

use crate::world::World;

const LIMIT: Duration = Duration::from_secs(30);

async fn world(node: NodeBuilder) -> (World, PodSpec, String) {
    let world = World::start(node).await;
    let pod = world.node.pod("screen").own_network();
    let id = world.cri.run_pod(&pod).await.unwrap();
    (world, pod, id)
}

#[tokio::test]
async fn a_shell_and_a_container_s_own_terminal_work_as_on_a_console() {
    skip_unless!(machine::can_run_pods());
    let (world, pod, pod_id) = world(Node::any()).await;
    let (cri, client, image) = (&world.cri, &world.client, &world.image);
    let spec = ContainerSpec::new("main", image).shell("sleep 600");
    cri.run(&pod_id, &pod, &spec).await.unwrap();
    let spec = ContainerSpec::new("console", image)
        .shell("while read line; do echo got $line; done")
        .with(|config| {
            config.tty = true;
            config.stdin = true;
        });
    let console = cri.run(&pod_id, &pod, &spec).await.unwrap();

    let mut shell = Terminal::start(&client.command(&["exec", "-it", "main", "sh"]), 90, 30);
    shell.send("echo $((40 + 2)); stty size\r");
    shell.wait_for("\n42\n", LIMIT);
    shell.wait_for("30 90", LIMIT);
    shell.resize(120, 40);
    // The size travels beside the input: it may come a moment later.
    shell.send("until stty size | grep '40 120'; do sleep 0.1; done; echo resized\r");
    shell.wait_for("\nresized\n", LIMIT);
    // An interrupt is for what runs in the container.
    shell.send("sleep 500\r");
    std::thread::sleep(Duration::from_millis(300));
    shell.send("\x03");
    shell.send("echo still; exit 7\r");
    shell.wait_for("\nstill\n", LIMIT);
    assert_eq!(shell.wait(LIMIT).code(), Some(7));

    let mut attached = Terminal::start(&client.command(&["attach", "-it", "console"]), 80, 24);
    attached.send("one\r");
    attached.wait_for("got one", LIMIT);
    attached.send("\x10\x11");
    assert!(attached.wait(LIMIT).success(), "detaching is no failure");
    let status = cri.status(&console).await.unwrap();
    assert_eq!(status.exit_code, 0);
    assert_eq!(status.finished_at, 0, "and the container runs on");
    world.finish().await;
}

#[tokio::test]
async fn top_shows_the_node_and_does_what_keys_say() {
    skip_unless!(machine::can_run_pods());
    let (world, pod, pod_id) = world(Node::any()).await;
    let (cri, client, image) = (&world.cri, &world.client, &world.image);
    let busy = ContainerSpec::new("busy", image).shell("while :; do :; done");
    cri.run(&pod_id, &pod, &busy).await.unwrap();
    let idle = ContainerSpec::new("idle", image).shell("echo from-the-log; sleep 600");
    cri.run(&pod_id, &pod, &idle).await.unwrap();

    let mut top = Terminal::start(&client.command(&["top", "-i", "300ms"]), 132, 24);
    let row = |terminal: &Terminal, name: &str| {
        let frame = terminal.frame();
        let line = frame
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        line.map(str::to_owned)
    };
    top.wait_until("a container that computes", LIMIT, |top| {
        let cpu = row(top, "busy").and_then(|row| {
            let word = row.split_whitespace().nth(1)?.to_owned();
            word.parse::<f64>().ok()
        });
        cpu.is_some_and(|cpu| cpu > 5.0)
    });
    let frame = top.frame();
    assert!(frame.contains("/screen"), "the pod: {frame}");
    assert!(frame.contains("2 of 2 containers run"), "{frame}");
    let place = |top: &Terminal, name: &str| {
        top.frame()
            .lines()
            .position(|line| line.trim_start().starts_with(name))
    };
    assert!(
        place(&top, "busy") < place(&top, "idle"),
        "most processor time first"
    );

    top.send("N");
    top.send("r");
    top.wait_until("the other order", LIMIT, |top| {
        place(top, "idle") < place(top, "busy")
    });
    top.send("/idle");
    top.wait_until("only what fits", LIMIT, |top| row(top, "busy").is_none());
    top.send("\r");
    // The log of what is selected, in the place of the view, and back.
    top.send("\x1b[B");
    top.send("l");
    top.wait_for("from-the-log", LIMIT);
    top.send("\x03");
    top.wait_until("the view again", LIMIT, |top| {
        top.raw().matches("\x1b[?1049h").count() == 2 && row(top, "idle").is_some()
    });
    top.send("e");
    top.wait_until("the view left", LIMIT, |top| {
        top.raw().matches("\x1b[?1049l").count() == 2
    });
    top.send("echo in-$((20 + 3)); exit\r");
    top.wait_for("\nin-23\n", LIMIT);
    top.wait_until("the view once more", LIMIT, |top| {
        top.raw().matches("\x1b[?1049h").count() == 3
    });
    top.resize(60, 10);
    top.wait_until("the small screen", LIMIT, |top| {
        let frame = top.frame();
        frame.lines().count() <= 10 && frame.lines().all(|line| line.chars().count() <= 60)
    });
    top.send("q");
    assert!(top.wait(LIMIT).success());
    top.wait_until("the terminal as it was", LIMIT, |top| {
        top.raw().ends_with("\x1b[?25h\x1b[?1049l")
    });

    // Where there is no terminal it is a table.
    let plain = client.run(&["top", "-i", "300ms"]);
    let text = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.status.success() && !text.contains('\x1b'), "{text}");
    assert!(text.lines().any(|line| line.contains("busy")), "{text}");
    world.finish().await;
}
