//! Images whose layers come as they are read, as clients see them: how much is here, the rest on request,
//! pods that want all of it, and reads that fail.

use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_testkit::{
    Chunked, Fault, FaultProxy, ImageBuilder, Layer, Node, NodeBuilder, Rule, machine, node,
};
use serde_json::Value;
use tonic::Code;

use crate::world::{World, world};

/// So slow without somebody who waits that nothing but what is asked for comes while a test runs.
const SETTINGS: &str = r#"
[images]
lazy = "auto"
lazy_min_layer = 0
lazy_bandwidth = "16KiB"
lazy_timeout = "2s"
"#;

const SIZE: usize = 24 << 20;

fn lazy(node: NodeBuilder) -> NodeBuilder {
    node.drop_in(SETTINGS)
}

/// An image of a layer that is pulled whole, and one that need not be.
fn image(mark: &str) -> ImageBuilder {
    ImageBuilder::busybox()
        .chunked(
            Layer::new().noise("noise", SIZE).file("last", mark, 0o644),
            Chunked::ZstdChunked,
        )
        .marked(mark)
}

/// How much of an image is here, by `orlop images`; nothing where it does not say.
fn here(world: &World, id: &str) -> Option<u64> {
    let listed = world.node.client().out(&["images", "--no-trunc"]);
    let heading = listed.lines().next()?;
    if !heading.contains("HERE") {
        return None;
    }
    let row = listed.lines().find(|row| row.contains(id))?;
    let last = row.split_whitespace().last()?;
    last.strip_suffix('%')?.parse().ok()
}

fn info(world: &World, name: &str) -> Value {
    let text = world.node.client().out(&["inspecti", name]);
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    shown["info"].clone()
}

#[tokio::test]
async fn what_is_here_of_an_image_is_told_and_the_rest_comes_on_request() {
    let world = world!(lazy(Node::orlop()));
    let client = world.node.client();
    let built = ImageBuilder::new()
        .layer(Layer::new().noise("whole", 1 << 20))
        .chunked(Layer::new().noise("noise", SIZE), Chunked::EStargz)
        .build();
    world.registry.push(&built, "told:1").await;
    let proxy = FaultProxy::before(world.registry.address());
    let name = proxy.reference("told:1");
    // While it comes, the other one is mounted.
    let fault = Fault::Stall {
        after: 1 << 19,
        hold: Duration::from_secs(1),
    };
    proxy.rule(Rule::on(&built.layers[0].digest, fault));
    assert_eq!(here(&world, built.id()), None, "none is lazy");
    assert_eq!(info(&world, &world.busybox)["here"], Value::Null);

    let (said, shown) = client.both(&["pull", &name]);
    assert_eq!(said, format!("Image is up to date for {}\n", built.id()));
    let later = "1 of 2 layers are fetched on demand\n";
    assert!(shown.ends_with(later), "{shown}");
    let layer = &built.layers[1].digest["sha256:".len()..][..13];
    let mut of_layer = shown.lines().filter(|line| line.starts_with(layer));
    let last = of_layer.next_back().unwrap_or_default();
    assert!(last.starts_with(&format!("{layer} mounted ")), "{shown}");

    let part = here(&world, built.id()).expect("it comes as it is read");
    assert!(part < 60, "{part}");
    let info_of = info(&world, &name);
    assert_eq!(info_of["layerForms"][0], "lazy", "{info_of}");
    assert_ne!(info_of["layerForms"][1], "lazy", "{info_of}");
    let (bytes, of) = (&info_of["here"]["bytes"], &info_of["here"]["of"]);
    assert!(bytes.as_u64() < of.as_u64(), "{info_of}");
    assert!(of.as_u64() > Some(SIZE as u64), "{info_of}");
    let top = client.out(&["top", "--interval", "200ms", "-o", "json"]);
    let top: Value = serde_json::from_str(&top).expect("JSON");
    assert_eq!(top["images"][0]["name"], name.as_str(), "{top}");
    let info: Value = serde_json::from_str(&client.out(&["info"])).expect("JSON");
    assert_eq!(info["config"]["lazyLayers"], 1, "{info}");
    let doctor = world.doctor().await;
    for well in [
        "orlop-lazy exists",
        "/dev/fuse can be opened",
        "EROFS file systems can be mounted",
    ] {
        assert!(doctor.contains(well), "{well}: {doctor}");
    }
    // crictl's table stays crictl's.
    let programs = tempfile::tempdir().expect("a directory");
    let crictl = programs.path().join("crictl");
    std::os::unix::fs::symlink(node::binary(), &crictl).expect("link");
    let mut images = Command::new(crictl);
    images.args(["--config", "/dev/null", "-r"]);
    images.arg(format!("unix://{}", world.node.socket().display()));
    let listed = images.arg("images").output().expect("run crictl").stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("HERE"));

    let (said, shown) = client.both(&["image", "fetch", &name]);
    assert_eq!(said, format!("{} whole {name}\n", built.id()));
    assert!(shown.starts_with(&format!("{name} ")), "{shown}");
    assert!(shown.contains("% of "), "{shown}");
    assert_eq!(here(&world, built.id()), None, "all of it is here");
    let info_of = self::info(&world, &name);
    assert_eq!(info_of["here"], Value::Null, "{info_of}");
    assert_eq!(info_of["layerForms"][0], "erofs", "{info_of}");
    // Another time there is nothing to do, and what is not here is named.
    assert_eq!(
        client
            .out(&["image", "fetch", &name, &world.busybox])
            .lines()
            .count(),
        2
    );
    let unknown = client.error(&["image", "fetch", "no.test/such:1"]);
    assert!(unknown.contains("no.test/such:1"), "{unknown}");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_may_want_all_of_its_image_here() {
    let world = world!(lazy(Node::orlop()));
    let pod = world
        .node
        .pod("whole")
        .annotation("images.orlop/lazy", "never");

    let pulled = image("pulled").build();
    let name = world.registry.push(&pulled, "pulled:1").await;
    world.cri.pull_for(&name, &pod).await.expect("pull");
    assert_eq!(here(&world, pulled.id()), None, "the pull has waited");

    // Somebody else's pull has not.
    let created = image("created").build();
    let name = world.image(&created, "created:1").await;
    assert!(here(&world, created.id()).is_some());
    let pod_id = world.run_pod(&pod).await;
    let spec = orlop_testkit::ContainerSpec::new("main", &name).shell("cat /last; sleep 600");
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    assert_eq!(here(&world, created.id()), None, "the creation has waited");
    world.cri.start(&id).await.expect("start");
    assert_eq!(world.printed(&id, &["cat", "/last"]).await, "created");

    let wrong = world
        .node
        .pod("wrong")
        .annotation("images.orlop/lazy", "no");
    for refused in [
        world.cri.run_pod(&wrong).await.map(drop),
        world.cri.pull_for(&name, &wrong).await.map(drop),
    ] {
        let error = refused.expect_err("it makes no sense");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("images.orlop/lazy"), "{error}");
    }
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_an_event_and_counted() {
    let sockets = tempfile::tempdir().expect("a directory");
    let socket = sockets.path().join("m.sock");
    let listen = format!("unix://{}", socket.display());
    let mut world = world!(lazy(Node::orlop().arg("--metrics-listen").arg(&listen)));
    let built = image("gone").build();
    let name = world.image(&built, "gone:1").await;
    let spec = orlop_testkit::ContainerSpec::new("main", &name).shell("sleep 600");
    let running = world.run_container("reader", &spec).await;
    let events = world
        .node
        .client()
        .command(&["events", "-o", "table", "-n", "1", "--filter"])
        .arg("type=unreadable")
        .stdout(Stdio::piped())
        .spawn()
        .expect("run orlop");
    tokio::time::sleep(Duration::from_secs(1)).await;

    world.registry.freeze();
    let read = world
        .cri
        .exec(&running.id, &["sh", "-c", "cat /noise > /dev/null"]);
    let read = read.await.expect("exec");
    assert_ne!(read.exit_code, 0, "{read:?}");
    let events = tokio::task::spawn_blocking(move || events.wait_with_output());
    let events = tokio::time::timeout(Duration::from_secs(30), events).await;
    let events = events.expect("an event").expect("no panic").expect("wait");
    let event = String::from_utf8_lossy(&events.stdout).into_owned();
    let host = world.registry.host();
    let line = format!("  unreadable  {name}  {host}  ");
    assert!(event.contains(&line), "{event}");
    let metrics = crate::observe::get(&socket, "/metrics").await;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{name}:\n{metrics}"))
    };
    assert!(value("orlop_lazy_layers ") >= 1.0, "{metrics}");
    assert!(value("orlop_lazy_reads_failed_total ") >= 1.0, "{metrics}");
    assert!(
        value("orlop_lazy_reads_timed_out_total ") >= 1.0,
        "{metrics}"
    );
    assert!(value("orlop_lazy_fetched_bytes_total ") > 0.0, "{metrics}");

    // A registry that is gone is named to who wants the rest.
    world.registry.thaw();
    let registry = std::mem::replace(&mut world.registry, orlop_testkit::Registry::start());
    drop(registry);
    let error = world.node.client().error(&["image", "fetch", &name]);
    let line = error.lines().last().unwrap_or_default();
    assert!(
        line.starts_with(&format!("cannot fetch {name}: ")),
        "{error}"
    );
    assert!(
        line.matches(&host).count() >= 2,
        "the registry is named: {error}"
    );
    world.finish().await;
}

/// What is read of it to make a container waits for the registry, on threads that others do not need.
#[tokio::test]
async fn a_registry_that_stalls_holds_up_the_containers_of_its_images_alone() {
    // More than the daemon has threads for its own work.
    const CONTAINERS: usize = 80;
    let patient = SETTINGS.replace("\"2s\"", "\"1m\"");
    let mut world = world!(Node::orlop().drop_in(&patient));
    let layer = Layer::new().noise("noise", SIZE);
    let layer = layer.file("etc/passwd", "somebody:x:4321:4321::/:/bin/sh\n", 0o644);
    let built = ImageBuilder::busybox().chunked(layer, Chunked::ZstdChunked);
    let name = world.image(&built.build(), "stalled:1").await;
    let pod = world.node.pod("stalled");
    let pod_id = world.run_pod(&pod).await;
    world.registry.freeze();
    let mut made = Vec::new();
    for number in 0..CONTAINERS {
        let container = orlop_testkit::ContainerSpec::new(&format!("late-{number}"), &name);
        let container = container.user("somebody").shell("id -u; sleep 600");
        let (cri, pod, pod_id) = (world.cri.clone(), pod.clone(), pod_id.clone());
        made.push(tokio::spawn(async move {
            cri.create(&pod_id, &pod, &container).await
        }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let others = async {
        let other = world.run_script("other", "echo here; sleep 600").await;
        world.cri.stop_pod(&other.pod_id).await.expect("stop");
        world.cri.remove_pod(&other.pod_id).await.expect("remove");
    };
    let is_held_up =
        tokio::time::timeout(Duration::from_secs(15) * machine::patience(), others).await;
    assert!(made.iter().all(|it| !it.is_finished()), "nothing waits");
    world.registry.thaw();
    assert!(is_held_up.is_ok(), "others wait as well");
    let mut ids = Vec::new();
    for made in made {
        ids.push(made.await.expect("no panic").expect("create"));
    }
    world.cri.start(&ids[0]).await.expect("start");
    assert_eq!(world.printed(&ids[0], &["id", "-u"]).await, "4321");
    world.finish().await;
}
