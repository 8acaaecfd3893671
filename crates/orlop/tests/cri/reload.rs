//! What a reload of the configuration applies: to all that begins after it, while what is there goes on.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_cri_api::v1::{ExecRequest, RunPodSandboxRequest};
use orlop_testkit::tls::{Authority, Pair};
use orlop_testkit::{PodSpec, assert_contains};
use tonic::Code;

use crate::world::{World, ours};

/// Has the daemon read its configuration with this beside; what it says of it.
pub(crate) fn reload(world: &World, toml: &str) -> Result<String, String> {
    let file = world.node.scratch().path("config.toml.d/60-reload.toml");
    std::fs::write(file, toml).expect("write a drop-in");
    let done = Command::new(orlop_testkit::node::binary())
        .args(["config", "reload", "--socket"])
        .arg(world.node.socket())
        .stdin(Stdio::null())
        .output()
        .expect("run orlop");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if done.status.success() {
        Ok(text(done.stdout))
    } else {
        Err(text(done.stderr))
    }
}

pub(crate) fn applied(world: &World, toml: &str) -> String {
    let said = reload(world, toml).expect("a configuration that can be used");
    assert!(
        said.starts_with("applied") && !said.contains("restart"),
        "{said}"
    );
    said
}

pub(crate) fn which(program: &str) -> std::path::PathBuf {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/usr/local/sbin"];
    let mut places = places.iter().map(|place| Path::new(place).join(program));
    places.find(|path| path.exists()).expect("it is installed")
}

pub(crate) async fn run_by(
    world: &World,
    pod: &PodSpec,
    handler: &str,
) -> Result<String, tonic::Status> {
    let request = RunPodSandboxRequest {
        config: Some(pod.config()),
        runtime_handler: handler.to_owned(),
    };
    let answer = world.cri.runtime().run_pod_sandbox(request).await;
    answer.map(|answer| answer.into_inner().pod_sandbox_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn runtimes_come_and_go_and_pods_keep_theirs() {
    let world = ours!();
    let runc = which("runc");
    let table = format!("[runtimes.another]\npath = {runc:?}\n");
    let refused = run_by(&world, &world.node.pod("early"), "another").await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);

    let said = applied(&world, &table);
    assert!(said.contains("runtimes.another."), "{said}");
    let pod = world.node.pod("kept");
    let pod_id = run_by(&world, &pod, "another").await.expect("a pod");
    let spec = world.container("main").shell("sleep 1000");
    let id = world.cri.run(&pod_id, &pod, &spec).await;
    let id = id.expect("a container");

    // What is another one under its name makes new ones, and the old one serves on where it has made something.
    let root = world.node.scratch().path("another-root");
    applied(&world, &format!("{table}root = {root:?}\n"));
    assert_eq!(world.printed(&id, &["echo", "on"]).await, "on");
    let newer = world.node.pod("newer");
    let newer_id = run_by(&world, &newer, "another").await.expect("a pod");
    let made = world.cri.run(&newer_id, &newer, &spec).await;
    made.expect("a container");
    assert_eq!(std::fs::read_dir(&root).expect("its state").count(), 1);
    let done = world.cri.remove_pod(&newer_id).await;
    done.expect("remove the pod");
    assert_eq!(std::fs::read_dir(&root).expect("its state").count(), 0);

    // It is offered no more, too.
    applied(&world, "");
    let refused = run_by(&world, &world.node.pod("late"), "another").await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(world.printed(&id, &["echo", "on"]).await, "on");
    let second = world.container("second").shell("sleep 1000");
    let done = world.cri.run(&pod_id, &pod, &second).await;
    done.expect("one more");
    world.cri.stop(&id, 0).await.expect("stop");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");

    // Which is the default is said at once, too.
    applied(&world, &format!("default_runtime = \"another\"\n{table}"));
    let running = world.run_script("default", "sleep 1000").await;
    let state = world.cri.pod_status(&running.pod_id).await;
    let state = state.expect("a status");
    assert_eq!(state.runtime_handler, "");
    let traced = std::fs::read_dir(world.node.state().join("runtimes/another"));
    assert_eq!(traced.expect("the state of runc").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_for_containers_holds_for_the_next_one() {
    let world = ours!();
    let running = world.run_script("pod", "sleep 1000").await;
    let limit = ["sh", "-c", "ulimit -n"];
    let before = world.printed(&running.id, &limit).await;
    assert_ne!(before, "517");
    applied(
        &world,
        "[containers]\nulimits = [\"nofile=517:517\"]\nexec_output_limit = \"8KiB\"\n",
    );
    assert_eq!(world.printed(&running.id, &limit).await, before);
    let spec = world.container("second").shell("sleep 1000");
    let second = world.cri.run(&running.pod_id, &running.pod, &spec).await;
    assert_eq!(
        world.printed(&second.expect("one more"), &limit).await,
        "517"
    );
    let much = ["sh", "-c", "head -c 20000 /dev/zero"];
    let printed = world.cri.exec(&running.id, &much).await.expect("exec");
    assert_eq!(printed.stdout.len(), 8 << 10);
}

fn get(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_move_and_plugins_find_another_socket() {
    let world = ours!();
    let place = |name: &str| world.node.scratch().run().join(name);
    let at = |metrics: &str, nri: &str| {
        let (metrics, nri) = (place(metrics), place(nri));
        format!(
            "[metrics]\nlisten = \"unix://{}\"\n[nri]\nsocket = {nri:?}\n",
            metrics.display()
        )
    };
    assert!(world.node.plugin_socket().exists());
    applied(&world, &at("m1.sock", "n1.sock"));
    assert!(
        get(&place("m1.sock"))
            .expect("an answer")
            .contains("200 OK")
    );
    assert!(!world.node.plugin_socket().exists());
    UnixStream::connect(place("n1.sock")).expect("plugins connect");

    applied(&world, &at("m2.sock", "n2.sock"));
    assert!(
        get(&place("m2.sock"))
            .expect("an answer")
            .contains("200 OK")
    );
    get(&place("m1.sock")).expect_err("nobody is there");
    UnixStream::connect(place("n1.sock")).expect_err("nobody is there");
    UnixStream::connect(place("n2.sock")).expect("plugins connect");

    applied(&world, "[nri]\nenable = false\n");
    get(&place("m2.sock")).expect_err("nobody is there");
    UnixStream::connect(place("n2.sock")).expect_err("nobody is there");
    world.run_script("after", "sleep 1000").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_changes_nothing_and_what_must_wait_is_told() {
    let world = ours!();
    let partitions = world.node.scratch().path("rdt.yaml");
    std::fs::write(&partitions, "partitions:\n  p: {l3Allocation: 101%}\n").expect("write");
    let partitions = format!(
        "[containers]\nulimits = [\"nofile=511:511\"]\nrdt_config = \"{}\"\n",
        partitions.display()
    );
    for (toml, reason) in [
        (partitions.as_str(), "rdt.yaml:2: \"101%\""),
        ("default_runtime = \"nowhere\"\n", "nowhere"),
        (
            "[containers]\nulimits = [\"nofile=511:511\"]\nblockio_config = \"/nonexistent/classes\"\n",
            "blockio_config",
        ),
        (
            "[metrics]\nlisten = \"unix:///dev/null/m.sock\"\n",
            "/dev/null",
        ),
        ("[nri]\nsocket = \"/dev/null/n.sock\"\n", "nri.socket"),
        (
            "[streaming]\ntls_cert = \"/nonexistent/c.pem\"\ntls_key = \"/nonexistent/k.pem\"\n",
            "/nonexistent",
        ),
    ] {
        let error = reload(&world, toml).expect_err("a mistake");
        assert_contains!(error, "keeping the old configuration");
        assert!(error.contains(reason), "{error}");
    }
    let running = world.run_script("pod", "sleep 1000").await;
    let limit = world.printed(&running.id, &["sh", "-c", "ulimit -n"]).await;
    assert_ne!(limit, "511");

    let waits = "[grpc]\nmax_connections = 77\n[containers]\npids_limit = 1234\n";
    for applies in ["applied containers.pids_limit; ", ""] {
        let said = reload(&world, waits).expect("a configuration that can be used");
        let whole = format!("{applies}a restart is needed for grpc.max_connections\n");
        assert_eq!(said, whole);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_are_looked_for_where_the_configuration_says_now() {
    let world = ours!();
    let dir = world.node.scratch().path("other-networks");
    std::fs::create_dir(&dir).expect("a directory");
    let network = |name: &str| {
        format!(r#"{{"cniVersion": "1.0.0", "name": "{name}", "plugins": [{{"type": "ptp"}}]}}"#)
    };
    std::fs::write(dir.join("10-a.conflist"), network("reloaded")).expect("a network");
    let names = || {
        let listed = Command::new(orlop_testkit::node::binary())
            .arg("-r")
            .arg(format!("unix://{}", world.node.socket().display()))
            .args(["network", "ls"])
            .output()
            .expect("run orlop");
        String::from_utf8_lossy(&listed.stdout).into_owned()
    };
    let before = names();
    assert!(before.contains(world.node.id()), "{before}");
    assert!(!before.contains("reloaded"));
    applied(&world, &format!("[network]\nconf_dir = {dir:?}\n"));
    assert!(names().contains("reloaded"));
    // It is watched, as the one before was.
    std::fs::write(dir.join("05-b.conflist"), network("watched")).expect("a network");
    let limit = std::time::Duration::from_secs(10);
    orlop_testkit::wait_until!(limit, names().contains("watched"), "nobody has looked");
    applied(&world, "");
    assert_eq!(names(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_find_another_certificate_and_those_that_are_open_go_on() {
    let world = ours!();
    let running = world.run_script("pod", "sleep 1000").await;
    let url = || async {
        let request = ExecRequest {
            container_id: running.id.clone(),
            cmd: vec!["cat".to_owned()],
            stdin: true,
            stdout: true,
            ..ExecRequest::default()
        };
        let answer = world.cri.runtime().exec(request).await;
        answer.expect("exec").into_inner().url
    };
    let mut open = Command::new(orlop_testkit::node::binary())
        .arg("-r")
        .arg(format!("unix://{}", world.node.socket().display()))
        .args(["exec", "-i", &running.id, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run orlop");
    let (mut stdin, mut stdout) = (open.stdin.take().unwrap(), open.stdout.take().unwrap());
    let mut says = |word: &str| {
        stdin.write_all(word.as_bytes()).expect("write");
        let mut said = vec![0; word.len()];
        stdout.read_exact(&mut said).expect("read");
        assert_eq!(said, word.as_bytes());
    };
    says("before");
    assert!(url().await.starts_with("http://"));

    let authority = Authority::new(world.node.scratch().run(), "authority");
    let pair = authority.issue("node", "IP:127.0.0.1");
    let (certificate, key) = (&pair.certificate, &pair.key);
    applied(
        &world,
        &format!("[streaming]\ntls_cert = {certificate:?}\ntls_key = {key:?}\n"),
    );
    let at = url().await;
    let address = at.strip_prefix("https://").expect("TLS").split('/').next();
    let shown = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            address.expect("an address"),
            "-CAfile",
        ])
        .arg(authority.certificate())
        .stdin(Stdio::null())
        .output()
        .expect("run openssl");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("Verify return code: 0 (ok)"), "{shown}");
    says("after");
    // What is refused for another reason leaves it so: more classes than any machine has.
    let partitions = world.node.scratch().path("rdt.yaml");
    let classes: Vec<_> = (0..600).map(|at| format!("      c{at}:\n")).collect();
    let classes = classes.concat();
    let text = format!("partitions:\n  p:\n    classes:\n{classes}");
    std::fs::write(&partitions, text).expect("write");
    let refused = reload(
        &world,
        &format!("[containers]\nrdt_config = {partitions:?}\n"),
    );
    let refused = refused.expect_err("too many classes");
    assert!(refused.contains("rdt_config"), "{refused}");
    assert!(url().await.starts_with("https://"));
    applied(&world, "");
    assert!(url().await.starts_with("http://"));
    drop(stdin);
    assert!(open.wait().expect("an end").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pulled_and_judged_by_what_the_configuration_says_now() {
    let world = ours!();
    let file = |name: &str, text: &str| {
        let path = world.node.scratch().path(name);
        std::fs::write(&path, text).expect("write");
        path
    };
    let image = orlop_testkit::ImageBuilder::busybox()
        .marked("reload")
        .build();
    let second = world.registry.push(&image, "second:1").await;

    let policy = file("policy.json", r#"{"default": [{"type": "reject"}]}"#);
    let said = applied(
        &world,
        &format!("[images]\nsignature_policy = {policy:?}\n"),
    );
    assert_eq!(said, "applied images.signature_policy\n");
    let refused = world.cri.pull(&second).await.unwrap_err();
    assert_contains!(refused.message(), "SignatureValidationFailed");
    let pod = world.node.pod("refused");
    let pod_id = world.run_pod(&pod).await;
    let refused = world
        .cri
        .create(&pod_id, &pod, &world.container("main"))
        .await;
    assert!(
        refused
            .unwrap_err()
            .message()
            .contains("SignatureValidationFailed")
    );

    let place = second.trim_end_matches("/second:1");
    let aliases = file(
        "registries.conf",
        &format!("[aliases]\n\"reloaded\" = \"{place}/second\"\n"),
    );
    applied(
        &world,
        &format!("[images]\nregistries_conf = {aliases:?}\npinned = [\"*/second:*\"]\n"),
    );
    world.cri.pull("reloaded:1").await.expect("pull");
    let found = world.cri.known_image(&second).await;
    assert!(found.pinned);
    applied(&world, "[images]\nmax_size = \"1KiB\"\n");
    let found = world.cri.known_image(&second).await;
    assert!(!found.pinned);
    let third = orlop_testkit::ImageBuilder::busybox()
        .marked("large")
        .build();
    let third = world.registry.push(&third, "third:1").await;
    let refused = world.cri.pull(&third).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_on_any_address_are_for_who_shows_a_certificate_or_a_token() {
    let world = ours!();
    let scratch = world.node.scratch();
    let authority = Authority::new(scratch.run(), "authority");
    let (own, client) = (
        authority.issue("node", "IP:127.0.0.1"),
        authority.issue("client", "DNS:scraper"),
    );
    let stranger = Authority::new(&scratch.subdir("strangers"), "stranger");
    let strange = stranger.issue("client", "DNS:scraper");
    let token = scratch.path("token");
    std::fs::write(&token, "secret\n").expect("write");

    // Open to other machines without any of it: refused.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").port()
    };
    let listen = format!("[metrics]\nlisten = \"0.0.0.0:{port}\"\n");
    let tls = format!(
        "tls_cert = {:?}\ntls_key = {:?}\n",
        own.certificate, own.key
    );
    for short in [
        String::new(),
        tls.clone(),
        format!("token_file = {token:?}\n"),
    ] {
        let error = reload(&world, &format!("{listen}{short}")).expect_err("it is open");
        assert!(error.contains("open to other machines"), "{error}");
    }
    // What a client gets: the whole answer, or nothing.
    let asked = |pair: Option<&Pair>, token: Option<&str>| {
        let mut command = Command::new("openssl");
        command
            .args(["s_client", "-quiet", "-no_ign_eof", "-verify_return_error"])
            .args(["-connect", &format!("127.0.0.1:{port}"), "-CAfile"])
            .arg(authority.certificate());
        if let Some(pair) = pair {
            command
                .arg("-cert")
                .arg(&pair.certificate)
                .arg("-key")
                .arg(&pair.key);
        }
        let mut client = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("run openssl");
        let token = token.map(|it| format!("authorization: Bearer {it}\r\n"));
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: x\r\n{}connection: close\r\n\r\n",
            token.unwrap_or_default()
        );
        let mut stdin = client.stdin.take().expect("a pipe");
        // Who is refused may be gone already.
        let _ = stdin.write_all(request.as_bytes());
        let mut answer = String::new();
        let mut stdout = client.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut answer).expect("read");
        drop(stdin);
        client.wait().expect("an end");
        answer
    };
    let is_told = |answer: &str| answer.contains("200 OK") && answer.contains("orlop_build");

    applied(&world, &format!("{listen}{tls}token_file = {token:?}\n"));
    assert!(is_told(&asked(None, Some("secret"))));
    for wrong in [None, Some("public")] {
        let answer = asked(None, wrong);
        assert!(
            answer.contains("401 Unauthorized") && !answer.contains("orlop_build"),
            "{answer}"
        );
    }
    std::fs::write(&token, "another\n").expect("write");
    assert!(
        is_told(&asked(None, Some("another"))),
        "it is read each time"
    );

    let ca = format!("client_ca = {:?}\n", authority.certificate());
    applied(&world, &format!("{listen}{tls}{ca}"));
    assert!(is_told(&asked(Some(&client), None)));
    for wrong in [None, Some(&strange)] {
        let answer = asked(wrong, Some("another"));
        assert_eq!(answer, "", "who shows no such certificate");
    }
    applied(
        &world,
        &format!("{listen}{tls}{ca}token_file = {token:?}\n"),
    );
    assert!(is_told(&asked(Some(&client), None)));
    assert!(is_told(&asked(None, Some("another"))));
    let answer = asked(None, None);
    assert!(answer.contains("401 Unauthorized"), "{answer}");
}
