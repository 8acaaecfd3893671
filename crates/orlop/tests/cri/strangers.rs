//! Who waits for a stranger waits in that stranger's queue: the calls that need none do not.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::images::images_client::ImagesClient;
use orlop_cri_api::images::import_images_request::Part;
use orlop_cri_api::images::{
    ArchiveFormat, ExportImagesRequest, ExportImagesResponse, ImportImagesRequest,
    ImportImagesResponse, ImportStart,
};
use orlop_cri_api::v1::{GetEventsRequest, ListImagesRequest, StatusRequest};
use orlop_testkit::cri::Cri;
use orlop_testkit::{
    ContainerSpec, HangingNetwork, ImageBuilder, Layer, Node, SilentMount, machine, skip,
};
use tokio::time::timeout;
use tonic::{Code, Response, Status, Streaming};

use crate::world::{Running, World, ours, world};

/// Many times what a call takes, and far less than the strangers let wait.
const SOON: Duration = Duration::from_secs(10);

/// What a kubelet asks of a node all the time, and for a pod that needs nobody.
async fn all_is_well(world: &World, healthy: &Running, round: u32) {
    let begin = Instant::now();
    let calls = async {
        let done = world.cri.exec(&healthy.id, &["echo", "alive"]).await;
        assert_eq!(done.expect("a command").stdout, b"alive\n");
        world.cri.pods().await.expect("the pods");
        world.cri.containers().await.expect("the containers");
        let (mut images, request) = (world.cri.images(), ListImagesRequest::default());
        images.list_images(request).await.expect("the images");
        let mut runtime = world.cri.runtime();
        let status = runtime.status(StatusRequest::default()).await;
        status.expect("the status");
        let running = world
            .run_script(&format!("well-{round}"), "sleep 1000")
            .await;
        world.cri.remove_pod(&running.pod_id).await.expect("remove");
    };
    let done = timeout(SOON, calls).await;
    done.unwrap_or_else(|_| panic!("round {round} was not done after {:?}", begin.elapsed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_plugin_that_hangs_under_many_pods_keeps_no_other_pod_waiting() {
    const PODS: usize = 70;
    /// Of one network, so many are attached at a time; the others wait for these.
    const AT_A_TIME: usize = 48;
    let network = HangingNetwork::new();
    let world = world!(Node::orlop().drop_in(&network.section(50)));
    let healthy = world.run_script("healthy", "sleep 1000").await;
    let mut hanging = Vec::new();
    for n in 0..PODS {
        let cri = world.cri.clone();
        let pod = world.node.pod(&format!("hangs-{n}")).own_network();
        hanging.push(tokio::spawn(async move { cri.run_pod(&pod).await }));
    }
    orlop_testkit::wait_until!(
        SOON * 4,
        network.asked() >= AT_A_TIME,
        "only {} calls",
        network.asked()
    );
    for round in 0..3 {
        all_is_well(&world, &healthy, round).await;
    }
    assert!(
        hanging.iter().all(|pod| !pod.is_finished()),
        "a pod did not hang"
    );
    network.release();
    for one in hanging {
        one.await
            .expect("no panic")
            .expect("it is attached in the end");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_server_is_gone_fails_its_containers_and_nobody_else_s() {
    let world = ours!();
    let healthy = world.run_script("healthy", "sleep 1000").await;
    let point = world.node.scratch().subdir("gone");
    let mount = match SilentMount::on(&point) {
        Ok(mount) => mount,
        Err(reason) => skip!("{reason}"),
    };
    let link = world.node.scratch().path("link");
    std::os::unix::fs::symlink(&point, &link).expect("a link");
    let mut creating = Vec::new();
    for n in 0..8 {
        let cri = world.cri.clone();
        let pod = world.node.pod(&format!("gone-{n}"));
        let pod_id = world.run_pod(&pod).await;
        let path = if n % 2 == 0 { &point } else { &link };
        let spec = world.container("main").mount(&path.join("data"), "/data");
        let begin = Instant::now();
        let create = async move { (cri.create(&pod_id, &pod, &spec).await, begin.elapsed()) };
        creating.push(tokio::spawn(create));
    }
    for round in 0..3 {
        all_is_well(&world, &healthy, round).await;
    }
    for one in creating {
        let (answer, took) = one.await.expect("no panic");
        // 10 s of silence, and what else a call takes on a machine that does other things beside.
        let (least, most) = (Duration::from_secs(10), Duration::from_secs(12));
        assert!(
            took >= least && took < most * machine::patience(),
            "{took:?}"
        );
        let error = answer.expect_err("the volume does not answer");
        assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
        let said = error.message();
        let names_it = said.contains("fuse") && said.contains(&point.display().to_string());
        assert!(
            names_it && said.contains("config.mounts[0].host_path"),
            "{said}"
        );
    }
    drop(mount);
    // With the server back, or its mount gone, it is a path as any other.
    let running = world
        .run_container(
            "again",
            &world.container("main").mount(&link.join("data"), "/data"),
        )
        .await;
    assert!(point.join("data").is_dir());
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

/// More than the threads for the node's own quick work.
const LONG_WORKS: usize = 70;

#[tokio::test(flavor = "multi_thread")]
async fn containers_whose_files_take_long_to_remove_keep_nobody_else_waiting() {
    let world = ours!();
    let healthy = world.run_script("healthy", "sleep 1000").await;
    let pod = world.node.pod("hoarder");
    let pod_id = world.run_pod(&pod).await;
    let (mut containers, mut mounts) = (Vec::new(), Vec::new());
    for n in 0..LONG_WORKS {
        let spec = world.container(&format!("c{n}"));
        let id = world.cri.create(&pod_id, &pod, &spec).await;
        let id = id.expect("a container");
        // Stands for what takes its time: nothing on the machine's disk takes for ever.
        let dir = world.node.root().join("pods").join(&pod_id);
        let point = dir.join("containers").join(&id).join("upper/endless");
        std::fs::create_dir(&point).expect("a directory of the container's");
        match SilentMount::on(&point) {
            Ok(mount) => mounts.push(mount),
            Err(reason) => skip!("{reason}"),
        }
        containers.push(id);
    }
    let removing = containers.iter().cloned().map(|id| {
        let cri = world.cri.clone();
        tokio::spawn(async move { cri.remove(&id).await })
    });
    let removing: Vec<_> = removing.collect();
    for round in 0..3 {
        all_is_well(&world, &healthy, round).await;
    }
    let ended = removing.iter().filter(|task| task.is_finished()).count();
    assert_eq!(ended, 0, "so many were removed that should not have been");
    drop(mounts);
    for one in removing {
        // Those that were in the middle fail, and the others go on.
        let _ = one.await.expect("no panic");
    }
    for id in containers {
        world.cri.remove(&id).await.expect("nothing holds it up");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_take_long_to_fill_keep_nobody_else_waiting() {
    const FILES: usize = 10_000;
    let world = ours!();
    let healthy = world.run_script("healthy", "sleep 1000").await;
    let mut layer = Layer::new().dir("data", 0o755);
    for n in 0..FILES {
        layer = layer.file(&format!("data/{n}"), "", 0o644);
    }
    let image = ImageBuilder::busybox().layer(layer);
    let image = image.config("Volumes", serde_json::json!({ "/data": {} }));
    let image = world.image(&image.build(), "many:1").await;
    let pod = world.node.pod("hoarder");
    let pod_id = world.run_pod(&pod).await;
    let creating = (0..LONG_WORKS).map(|n| {
        let (cri, pod, pod_id) = (world.cri.clone(), pod.clone(), pod_id.clone());
        let spec = ContainerSpec::new(&format!("c{n}"), &image);
        tokio::spawn(async move { cri.create(&pod_id, &pod, &spec).await })
    });
    let creating: Vec<_> = creating.collect();
    for round in 0..3 {
        all_is_well(&world, &healthy, round).await;
    }
    let under_way = creating.iter().filter(|task| !task.is_finished()).count();
    assert!(
        under_way > LONG_WORKS / 2,
        "only {under_way} were still under way"
    );
    for one in &creating {
        one.abort();
    }
    // Nor does the pod that is stopped wait until all of them are filled.
    let stopped = timeout(2 * SOON, world.cri.stop_pod(&pod_id)).await;
    stopped.expect("the pod stops in time").expect("stop");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_for_nothing_keep_no_other_client_out() {
    const PLACES: usize = 8;
    let places = format!("[grpc]\nmax_connections = {PLACES}\n");
    let world = world!(Node::orlop().drop_in(&places));
    let socket = world.node.socket();
    // One that waits for events has a call in work.
    let listener = Cri::connect(&socket).await.expect("connect");
    let mut client = listener.runtime.clone();
    let events = client.get_container_events(GetEventsRequest::default());
    let mut events = events.await.expect("a stream").into_inner();
    for say_hello in [false, true] {
        let (mut silent, mut quiet) = (Vec::new(), Vec::new());
        for _ in 0..3 * PLACES {
            if say_hello {
                let client = Cri::connect(&socket).await.expect("connect");
                timeout(SOON, client.version())
                    .await
                    .expect("in time")
                    .expect("an answer");
                quiet.push(client);
            } else {
                silent.push(std::os::unix::net::UnixStream::connect(&socket).expect("connect"));
            }
        }
        let newcomer = Cri::connect(&socket).await.expect("connect");
        let answer = timeout(SOON, newcomer.version()).await;
        answer
            .unwrap_or_else(|_| panic!("they keep it out, having called: {say_hello}"))
            .expect("an answer");
        drop((silent, quiet));
    }
    let pod_id = world.run_pod(&world.node.pod("heard-of")).await;
    let event = timeout(SOON, events.message()).await.expect("in time");
    let event = event.expect("the stream goes on").expect("an event");
    assert_eq!(event.container_id, pod_id);
    drop((events, listener));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_hang_while_they_import_keep_nobody_else_waiting() {
    /// More than work and wait at a time.
    const IMPORTS: usize = 100;
    let world = ours!();
    let healthy = world.run_script("healthy", "sleep 1000").await;
    let begun = || imports_begun(&world);
    let own = Cri::connect(&world.node.socket()).await.expect("connect");
    let mut importing = Vec::new();
    for _ in 0..IMPORTS {
        let mut client = ImagesClient::new(own.channel());
        let start = Part::Start(ImportStart::default());
        let start = ImportImagesRequest { part: Some(start) };
        // The archive never comes.
        let parts = stream::iter([start]).chain(stream::pending());
        importing.push(tokio::spawn(async move {
            client.import_images(parts).await.map(drop)
        }));
    }
    let all_begun = async {
        while begun() < 16 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_begun).await.expect("they begin");
    for round in 0..3 {
        all_is_well(&world, &healthy, round).await;
    }
    assert_eq!(begun(), 16);
    // Those for whom there was no room are told so.
    let mut refused = 0;
    for one in importing.iter_mut().filter(|one| one.is_finished()) {
        let answer = one.await.expect("no panic");
        let error = answer.expect_err("there is no archive");
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("importing"), "{error}");
        refused += 1;
    }
    assert_eq!(refused, IMPORTS - 16 - 64);
    // Who leaves makes room.
    importing.iter().for_each(tokio::task::JoinHandle::abort);
    let all_gone = async {
        while begun() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_gone).await.expect("they end");
    world.cri.remove_pod(&healthy.pod_id).await.expect("remove");
    world.finish().await;
}

/// Imports for which there is a thread.
fn imports_begun(world: &World) -> usize {
    let scratch = std::fs::read_dir(world.node.root().join("images/tmp"));
    let names = scratch.into_iter().flatten().flatten();
    let of_imports = names.filter(|it| it.file_name().as_encoded_bytes().starts_with(b"import-"));
    of_imports.count()
}

/// A client with a connection of its own, so that what it does not read keeps no other waiting.
async fn images_client(world: &World) -> ImagesClient<tonic::transport::Channel> {
    let own = Cri::connect(&world.node.socket()).await.expect("connect");
    ImagesClient::new(own.channel())
}

/// Imports what comes in these pieces, ten in a second. Then nothing comes.
async fn import(
    world: &World,
    pieces: Vec<Vec<u8>>,
) -> impl Future<Output = Result<Response<ImportImagesResponse>, Status>> + use<> {
    let start = stream::iter([Part::Start(ImportStart::default())]);
    let chunks = stream::iter(pieces).then(async |piece| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Part::Chunk(piece)
    });
    let parts = start.chain(chunks).chain(stream::pending());
    let parts = parts.map(|part| ImportImagesRequest { part: Some(part) });
    let mut client = images_client(world).await;
    async move { client.import_images(parts).await }
}

/// Exports an image and has not read anything of it yet.
async fn export(world: &World, image: &str) -> Streaming<ExportImagesResponse> {
    let request = ExportImagesRequest {
        images: vec![image.to_owned()],
        format: ArchiveFormat::Oci.into(),
    };
    let answer = images_client(world).await.export_images(request).await;
    answer.expect("it is exported").into_inner()
}

/// Reads an archive to its end.
async fn read(mut chunks: Streaming<ExportImagesResponse>) -> Result<Vec<u8>, Status> {
    let mut archive = Vec::new();
    while let Some(message) = chunks.message().await? {
        archive.extend_from_slice(&message.chunk);
    }
    Ok(archive)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_go_silent_while_they_import_are_given_up_by_name_and_make_room() {
    let world = world!(Node::orlop().drop_in("[images]\nprogress_timeout = \"2s\"\n"));
    let archive = read(export(&world, &world.busybox).await).await;
    let archive = archive.expect("the archive");
    let mut given_up = Vec::new();
    for n in 0..16 {
        // Half of them say nothing after the beginning, half a byte now and then.
        let (pieces, key) = if n % 2 == 0 {
            (vec![archive[..700].to_vec()], "images.progress_timeout")
        } else {
            (vec![vec![b'x']; 1000], "images.min_speed")
        };
        let importing = import(&world, pieces).await;
        given_up.push((tokio::spawn(timeout(SOON, importing)), key));
    }
    let all_begun = async {
        while imports_begun(&world) < 16 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_begun).await.expect("they begin");
    // One that needs a place, and sends what it has in time.
    let parts = [Part::Start(ImportStart::default()), Part::Chunk(archive)];
    let parts = parts.map(|part| ImportImagesRequest { part: Some(part) });
    let mut client = images_client(&world).await;
    let imported = timeout(SOON, client.import_images(stream::iter(parts)));
    let imported = imported.await.expect("silent clients keep their places");
    assert_eq!(
        imported.expect("it is imported").into_inner().images.len(),
        1
    );
    for (one, key) in given_up {
        let answer = one.await.expect("no panic").expect("nobody gives it up");
        let error = answer.expect_err("there is no archive");
        assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
        assert!(error.message().contains(key), "{error}");
    }
    let all_gone = async {
        while imports_begun(&world) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_gone).await.expect("their drafts stay");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_what_they_export_are_given_up_by_name_and_make_room() {
    let world = world!(Node::orlop().drop_in("[images]\nprogress_timeout = \"2s\"\n"));
    // More than the daemon and a connection hold.
    let layer = Layer::new().file("zeros", vec![0; 16 << 20], 0o644);
    let image = ImageBuilder::new().layer(layer).build();
    let large = world.image(&image, "large:1").await;
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(export(&world, &large).await);
    }
    let read_whole = timeout(SOON, async { read(export(&world, &large).await).await });
    let archive = read_whole.await;
    let archive = archive.expect("those that do not read keep their places");
    assert!(archive.expect("the archive").len() > 16 << 20);
    // Who reads on learns why there is no more, even long after.
    tokio::time::sleep(SOON / 2).await;
    for one in unread {
        let answer = timeout(SOON, read(one)).await.expect("it ends");
        let answer = answer.map(|archive| archive.len());
        let error = answer.expect_err("nobody gave it up");
        assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
        let said = error.message();
        orlop_testkit::assert_contains!(said, "images.progress_timeout", "2s");
    }
    world.finish().await;
}
