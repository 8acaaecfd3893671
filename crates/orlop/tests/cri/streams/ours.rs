//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_port_of_the_node_is_let_go_of_with_the_pod() {
    // Other runtimes forward it for as long as their client stays.
    let world = ours!();
    for protocol in [Protocol::Spdy, Protocol::WebSocket] {
        let name = format!("{protocol:?}").to_lowercase();
        let running = world.run_script(&name, "sleep 86400").await;
        let (service, near) = (listening().await, listening().await);
        let (port, at) = (service.local_addr().unwrap().port(), near.local_addr());
        let request = PortForwardRequest {
            pod_sandbox_id: running.pod_id.clone(),
            port: vec![port.into()],
        };
        let answer = world.cri.runtime().port_forward(request).await;
        let url = answer.expect("a URL").into_inner().url;
        let stop = CancellationToken::new();
        let forwards = vec![Forward {
            listener: near,
            port,
        }];
        let options = ClientOptions {
            protocol,
            ..ClientOptions::default()
        };
        let until = stop.clone();
        let session =
            tokio::spawn(
                async move { port_forward(&url, &options, forwards, until, |_| {}).await },
            );
        let mut client = TcpStream::connect(at.unwrap()).await.expect("connect");
        let (mut served, _) = service.accept().await.expect("a connection");
        served.write_all(b"hello").await.expect("say something");
        let mut said = [0; 5];
        client.read_exact(&mut said).await.expect("it is forwarded");

        world.cri.stop_pod(&running.pod_id).await.expect("stop it");
        let limit = Duration::from_secs(10) * orlop_testkit::machine::patience();
        for (whose, end) in [("client", &mut client), ("service", &mut served)] {
            let end = tokio::time::timeout(limit, end.read(&mut said)).await;
            let end = end.unwrap_or_else(|_| panic!("{protocol:?}: the {whose}'s end goes on"));
            assert!(end.is_err() || end.is_ok_and(|count| count == 0));
        }
        stop.cancel();
        session.await.expect("no panic").expect("a session");
    }
    world.finish().await;
}

/// `ORLOP_STREAM_SESSIONS=10000` is the long form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_sessions_leave_nothing_however_they_end() {
    // containerd 1.6 leaves a command whose client has gone alone.
    let world = ours!();
    let sessions = number("ORLOP_STREAM_SESSIONS", 60);
    // A shell collects what its children leave behind.
    let running = world.run_script("short", "sleep 86400 & wait").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    let mut chance = chance();
    let mut moment = move || Duration::from_micros(chance.below(250_000) as u64);
    for kind in 0..5 {
        session(&world.cri, &running.id, kind, moment()).await;
    }
    let counts = || {
        (
            descriptors(world.node.pid()),
            descriptors(keeper),
            commands_left(&world.node.state()),
        )
    };
    settle(|| processes_in(keeper) <= alone).await;
    let before = counts();
    let mut done = 0;
    while done < sessions {
        let batch = (done..sessions.min(done + 8)).map(|kind| {
            let (cri, id, moment) = (world.cri.clone(), running.id.clone(), moment());
            tokio::spawn(async move { session(&cri, &id, kind, moment).await })
        });
        for session in batch.collect::<Vec<_>>() {
            session.await.expect("a session went wrong");
            done += 1;
        }
    }
    settle(|| {
        let now = counts();
        now.0 <= before.0 && now.1 <= before.1 && now.2 == 0 && processes_in(keeper) <= alone
    })
    .await;
    let after = counts();
    assert!(
        after.0 <= before.0 && after.1 <= before.1 && after.2 == 0,
        "descriptors of daemon and keeper, directories: {before:?}, then {after:?}"
    );
    assert!(processes_in(keeper) <= alone, "commands go on");
    let ps = world.cri.exec(&running.id, &["ps", "-o", "args"]).await;
    let ps = String::from_utf8_lossy(&ps.expect("exec").stdout).into_owned();
    assert!(!ps.contains("4711"), "something of them goes on:\n{ps}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_under_sessions_leaves_none_of_their_commands() {
    // containerd 1.6 leaves them.
    let mut world = ours!();
    let running = world.run_script("killed", "sleep 86400").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    let mut chance = chance();
    for round in 0..number("ORLOP_STREAM_KILLS", 2) {
        let mut sessions = Vec::new();
        for kind in 0..6_u64 {
            let protocol = [Protocol::Spdy, Protocol::WebSocket][kind as usize % 2];
            let script = ["cat; sleep 4711", "sleep 4711 & while :; do echo on; done"];
            let url = url(
                &world.cri,
                &running.id,
                &["sh", "-c", script[kind as usize % 2]],
                true,
            )
            .await;
            sessions.push(tokio::spawn(async move {
                let (ours, theirs) = tokio::io::duplex(64);
                let streams = ClientStreams {
                    stdin: Some(Box::new(theirs)),
                    ..outputs()
                };
                let ended = exec(&url, &over(protocol), streams).await;
                drop(ours);
                ended
            }));
        }
        let moment = Duration::from_micros(chance.below(500_000) as u64);
        tokio::time::sleep(moment).await;
        world.node.kill9();
        for session in sessions {
            let ended = tokio::time::timeout(Duration::from_secs(10), session).await;
            let ended = ended.expect("a client hangs").expect("no panic");
            assert!(
                matches!(
                    ended,
                    Err(ClientError::Lost
                        | ClientError::Connect { .. }
                        | ClientError::Http(_)
                        | ClientError::Stream { .. }
                        | ClientError::Timeout(_))
                ),
                "round {round}: {ended:?}"
            );
        }
        world.start_again().await;
        settle(|| processes_in(keeper) <= alone && commands_left(&world.node.state()) == 0).await;
        assert!(
            processes_in(keeper) <= alone,
            "round {round}: commands go on: {:?}",
            children_of(keeper)
        );
        let left = commands_left(&world.node.state());
        assert_eq!(left, 0, "round {round}: directories of commands are left");
    }
    world.finish().await;
}

#[tokio::test]
async fn the_directory_of_a_command_that_a_killed_daemon_never_sent_is_removed() {
    let mut world = ours!();
    let running = world.run_script("unsent", "sleep 86400").await;
    world.node.kill9();
    let bundle = directory_below(&world.node.state(), &running.id).expect("a bundle");
    fs::create_dir(bundle.join("exec-0123456789abcdef0123456789abcdef")).expect("a directory");
    world.start_again().await;
    settle(|| commands_left(&world.node.state()) == 0).await;
    assert_eq!(commands_left(&world.node.state()), 0);
    world.finish().await;
}

/// A directory of this name that is not a root file system's.
fn directory_below(top: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(top).ok()?.flatten().collect();
    let is_bundle = |path: &PathBuf| path.join("config.json").is_file();
    let here = entries.iter().filter(|entry| entry.file_name() == name);
    let found = here.map(fs::DirEntry::path).find(is_bundle);
    found.or_else(|| {
        let below = entries
            .iter()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        below
            .map(fs::DirEntry::path)
            .find_map(|path| directory_below(&path, name))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_while_a_command_starts_leaves_it_to_the_next_one_to_end() {
    // containerd calls its own shim.
    let tools = tempfile::tempdir().unwrap();
    let slow = tools.path().join("slow");
    // A runtime that takes its time to start commands.
    let script = "#!/bin/sh\ncase \" $* \" in *' exec '*) sleep 2;; esac\nexec runc \"$@\"\n";
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut world = world!(orlop_testkit::Node::orlop().runtime(slow.to_str().unwrap()));
    let running = world.run_script("starting", "sleep 86400").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    let url = url(&world.cri, &running.id, &["sleep", "4711"], false).await;
    let options = over(Protocol::Spdy);
    let session = tokio::spawn(async move { exec(&url, &options, outputs()).await });
    settle(|| processes_in(keeper) == 2).await;
    assert_eq!(processes_in(keeper), 2, "the runtime is not at work");
    world.node.kill9();
    session
        .await
        .expect("no panic")
        .expect_err("the daemon is gone");
    world.start_again().await;
    // Until then it does not even run.
    tokio::time::sleep(Duration::from_secs(3)).await;
    settle(|| processes_in(keeper) <= alone).await;
    assert!(processes_in(keeper) <= alone, "{:?}", children_of(keeper));
    world.finish().await;
}
