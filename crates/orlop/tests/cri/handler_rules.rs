//! What a runtime's containers begin with, and what annotations of pods ask for.

use std::process::{Command, Stdio};

use orlop_cri_api::v1::ExecRequest;
use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::tls::{Authority, Pair};
use orlop_testkit::{Node, PodSpec, assert_contains};

use crate::reload::{applied, reload, run_by, which};
use crate::world::{Running, World, cgroup_of, ours, until, world};

const SHM: &str = "io.kubernetes.cri-o.ShmSize";
const DIVIDES: &str = "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw";

/// What a script prints in a container of a pod that is run by this handler.
async fn said(world: &World, pod: &PodSpec, handler: &str, script: &str) -> Vec<String> {
    let pod_id = run_by(world, pod, handler).await.expect("a pod");
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, pod, &spec).await.expect("run");
    let status = world.cri.wait_exited(&id).await;
    let lines = orlop_testkit::cri::read_log(&pod.logs().join("main.log"));
    let lines = lines.into_iter();
    let lines: Vec<String> = lines
        .map(|line| String::from_utf8_lossy(&line.content).trim().to_owned())
        .collect();
    assert_eq!(status.exit_code, 0, "{lines:?}");
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtimes_base_is_beneath_what_a_pod_asks_for() {
    let world = ours!();
    let file = world.node.scratch().path("base.json");
    let own = orlop_testkit::node::binary().with_file_name("orlop-run");
    let runc = which("runc");
    let tables = format!(
        "[runtimes.based]\npath = {runc:?}\nbase_runtime_spec = {file:?}\n\
         [runtimes.based-too]\npath = {own:?}\nbase_runtime_spec = {file:?}\n\
         [runtimes.plain]\npath = {runc:?}\n"
    );
    let write = |text: &str| std::fs::write(&file, text).expect("write");
    write(
        r#"{"ociVersion": "1.0.2", "hostname": "elsewhere",
        "process": {"args": ["false"], "cwd": "/nowhere", "env": ["BASE=1", "PATH=/bin:/base"],
            "user": {"uid": 7, "gid": 7, "umask": 63},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 777, "soft": 777}]},
        "mounts": [{"destination": "/sys", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/extra", "type": "tmpfs", "source": "tmpfs", "options": ["size=64k"]}],
        "linux": {"sysctl": {"kernel.shmmni": "77"}}}"#,
    );
    applied(&world, &tables);
    let script = "ulimit -n; umask; echo $BASE $PATH; id -u; pwd; grep -c ' /extra tmpfs' /proc/mounts; \
        cat /proc/sys/kernel/shmmni; grep ' /sys ' /proc/mounts | cut -d' ' -f3";
    for handler in ["based", "based-too"] {
        let told = said(&world, &world.node.pod(handler), handler, script).await;
        let expected = [
            "777",
            "0077",
            "1 /bin:/usr/bin",
            "0",
            "/",
            "1",
            "77",
            "sysfs",
        ];
        assert_eq!(told, expected, "{handler}");
    }
    let script = "umask; echo -$BASE-; grep -c ' /extra tmpfs' /proc/mounts || true";
    let told = said(&world, &world.node.pod("plain"), "plain", script).await;
    assert_eq!(told, ["0022", "--", "0"]);

    // A reload reads the file again, and one that cannot be used is told and changes nothing.
    for (text, reason) in [
        ("[]", "a JSON object"),
        (
            r#"{"linux": {"sysctl": {"vm.swappiness": "1"}}}"#,
            "vm.swappiness",
        ),
    ] {
        write(text);
        let error = reload(&world, &tables).expect_err("no base");
        assert!(error.contains("runtimes.based"), "{error}");
        assert_contains!(error, "base.json", reason);
    }
    let told = said(&world, &world.node.pod("kept"), "based", "echo $BASE").await;
    assert_eq!(told, ["1"]);
    write(r#"{"process": {"env": ["BASE=2"]}}"#);
    // No key has another value, but what one names.
    reload(&world, &tables).expect("a base");
    let told = said(&world, &world.node.pod("newer"), "based", "echo $BASE").await;
    assert_eq!(told, ["2"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_annotations_ask_for_is_given_where_it_is_allowed() {
    let world = ours!();
    let runc = which("runc");
    let tables = |allowed: &str| {
        format!(
            "[containers]\nshm_size = \"3MiB\"\n\
             [runtimes.other]\npath = {runc:?}\nallowed_annotations = {allowed}\n"
        )
    };
    applied(&world, &tables("[]"));
    let script = "df -k /dev/shm | tail -1 | awk '{print $2}'; umask";
    let asking = |name: &str| {
        let pod = world.node.pod(name).annotation(SHM, "5Mi");
        pod.annotation("io.kubernetes.cri-o.umask", "0027")
    };
    let told = said(&world, &asking("refused"), "other", script).await;
    assert_eq!(told, ["3072", "0022"]);
    applied(&world, &tables("[\"io.kubernetes.cri-o.*\"]"));
    let told = said(&world, &asking("allowed"), "other", script).await;
    assert_eq!(told, ["5120", "0027"]);
    let wrong = world.node.pod("wrong").annotation(SHM, "0");
    let error = run_by(&world, &wrong, "other").await.unwrap_err();
    assert!(error.message().contains(SHM), "{error}");
    // What the administrator gives needs no leave.
    let defaults = format!(
        "{}default_annotations = {{ {SHM:?} = \"7Mi\" }}\n",
        tables("[]")
    );
    applied(&world, &defaults);
    let told = said(&world, &asking("given"), "other", script).await;
    assert_eq!(told, ["7168", "0022"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_live_in_the_zone_and_know_the_processors_that_they_are_given() {
    let zone = "/usr/share/zoneinfo/Asia/Tokyo";
    orlop_testkit::skip_unless!(
        std::path::Path::new(zone)
            .exists()
            .then_some(())
            .ok_or_else(|| "there is no tzdata".to_owned())
    );
    let world = ours!();
    let error = reload(&world, "[containers]\ntimezone = \"../../../etc/passwd\"\n");
    let error = error.expect_err("no zone");
    assert!(error.contains("containers.timezone"), "{error}");
    applied(
        &world,
        "[containers]\ntimezone = \"Asia/Tokyo\"\nmin_gomaxprocs = 2\n",
    );
    let script = "md5sum < /etc/localtime | cut -c1-32; (: > /etc/localtime) 2>/dev/null && echo writable; \
        echo $GOMAXPROCS";
    let (_, out) = world
        .output("zone", &world.container("main").shell(script))
        .await;
    let own = Command::new("md5sum").arg(zone).output().expect("md5sum");
    let own = String::from_utf8_lossy(&own.stdout)[..32].to_owned();
    assert_eq!(out.lines().collect::<Vec<_>>(), [own.as_str(), "2"]);
    let asking = world.container("main").shell("echo $GOMAXPROCS");
    let (_, out) = world
        .output("own", &asking.clone().env("GOMAXPROCS", "9"))
        .await;
    assert_eq!(out.trim(), "9");
    let limited = asking.with(|config| {
        let linux = config.linux.get_or_insert_default();
        let resources = linux.resources.get_or_insert_default();
        (resources.cpu_quota, resources.cpu_period) = (250_000, 100_000);
    });
    let (_, out) = world.output("limited", &limited).await;
    assert_eq!(out.trim(), "3");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_for_clients_with_a_certificate_on_terms_of_the_configuration() {
    let world = ours!();
    let running = world.run_script("main", "sleep 1000").await;
    let scratch = world.node.scratch();
    let authority = Authority::new(scratch.run(), "authority");
    let own = authority.issue("node", "IP:127.0.0.1");
    let client = authority.issue("client", "DNS:client");
    let (certificate, key) = (&own.certificate, &own.key);
    let tls = format!("[streaming]\ntls_cert = {certificate:?}\ntls_key = {key:?}\n");
    let error = reload(&world, &format!("{tls}tls_cipher_suites = [\"TLS_RC4\"]\n"));
    let error = error.expect_err("no such cipher");
    assert!(error.contains("TLS_AES_128_GCM_SHA256"), "{error}");
    let error = reload(&world, "[streaming]\nclient_ca = \"/ca.pem\"\n").expect_err("no TLS");
    assert!(error.contains("streaming.client_ca"), "{error}");

    let address = async || {
        let request = ExecRequest {
            container_id: running.id.clone(),
            cmd: vec!["true".to_owned()],
            stdout: true,
            ..ExecRequest::default()
        };
        let url = world.cri.runtime().exec(request).await;
        let url = url.expect("a URL").into_inner().url;
        let rest = url.strip_prefix("https://").expect("TLS").to_owned();
        rest.split('/').next().unwrap_or_default().to_owned()
    };
    let at = |address: &str, options: &[&str], pair: Option<&Pair>| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-no_ign_eof", "-connect", address]);
        command
            .args(options)
            .arg("-CAfile")
            .arg(authority.certificate());
        if let Some(pair) = pair {
            command.arg("-cert").arg(&pair.certificate);
            command.arg("-key").arg(&pair.key);
        }
        let mut client = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("run openssl");
        let mut stdin = client.stdin.take().expect("an input");
        // Who is not let in may be gone already.
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let _ = std::io::Write::write_all(&mut stdin, request);
        let mut answer = String::new();
        let stdout = client.stdout.as_mut().expect("an output");
        let _ = std::io::Read::read_to_string(stdout, &mut answer);
        drop(stdin);
        let _ = client.wait();
        answer.starts_with("HTTP/1.1 ")
    };
    applied(&world, &tls);
    let here = address().await;
    assert!(at(&here, &["-tls1_2"], None));

    applied(
        &world,
        &format!("{tls}tls_min_version = \"VersionTLS13\"\n"),
    );
    assert!(!at(&here, &["-tls1_2"], None));
    assert!(at(&here, &["-tls1_3"], None));

    let suites = ["ECDSA", "RSA"].map(|key| format!("TLS_ECDHE_{key}_WITH_AES_128_GCM_SHA256"));
    applied(&world, &format!("{tls}tls_cipher_suites = {suites:?}\n"));
    assert!(at(&here, &["-tls1_2"], None));
    assert!(!at(&here, &["-tls1_2", "-cipher", "AES256:CHACHA20"], None));
    assert!(at(&here, &["-tls1_3"], None));

    let ca = authority.certificate();
    applied(&world, &format!("{tls}client_ca = {ca:?}\n"));
    assert!(!at(&here, &["-tls1_3"], None));
    assert!(at(&here, &["-tls1_3"], Some(&client)));
    let stranger = Authority::new(&scratch.subdir("strangers"), "stranger");
    let strange = stranger.issue("client", "DNS:client");
    assert!(!at(&here, &["-tls1_3"], Some(&strange)));
    world.finish().await;
}

/// Whether containers can be given control groups to divide.
fn delegates() -> Result<(), String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let unified = mounts.find(|words| words.clone().nth(1) == Some("/sys/fs/cgroup"));
    let options = unified
        .and_then(|mut words| words.nth(3))
        .unwrap_or_default();
    if is_cgroup_v2() && options.split(',').any(|option| option == "nsdelegate") {
        return Ok(());
    }
    Err("control groups are not of version 2 with nsdelegate; `make test-vm` has these".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_divide_the_control_groups_that_are_theirs_and_no_others() {
    orlop_testkit::skip_unless!(delegates());
    let own = orlop_testkit::node::run_binary();
    let (runc, crun) = (which("runc"), which("crun"));
    let world = world!(Node::orlop().config(&format!(
        "[runtimes.ours]\npath = {own:?}\ncgroup_writable = true\n\
         [runtimes.by-runc]\npath = {runc:?}\ncgroup_writable = true\n\
         [runtimes.by-crun]\npath = {crun:?}\ncgroup_writable = true\n\
         [runtimes.asked]\npath = {own:?}\nallowed_annotations = [{DIVIDES:?}]\n"
    )));
    let neighbour = world.run_script("neighbour", "sleep 600").await;
    let script = "cd /sys/fs/cgroup && mkdir leaf && echo $$ > leaf/cgroup.procs || exit 1; \
        echo +memory +pids > cgroup.subtree_control && mkdir child || exit 2; \
        echo 8388608 > child/memory.max && echo 50 > child/pids.max && echo $$ > child/cgroup.procs || exit 3; \
        (echo max > memory.max) 2> /dev/null && exit 4; (echo 90 > pids.max) 2> /dev/null && exit 5; \
        cat memory.max child/memory.max child/pids.max; cut -d: -f3 /proc/self/cgroup; sleep 600";
    for (handler, asks) in [
        ("ours", None),
        ("by-runc", None),
        ("by-crun", None),
        ("asked", Some("true")),
    ] {
        let mut pod = world.node.pod(handler);
        if let Some(value) = asks {
            pod = pod.annotation(DIVIDES, value);
        }
        let pod_id = run_by(&world, &pod, handler).await.expect("a pod");
        let spec = world.container("main").shell(script).memory(64 << 20);
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        let running = Running { pod, pod_id, id };
        let told = until(&world, &running, "/child").await;
        let told: Vec<_> = told.lines().collect();
        assert_eq!(told, ["67108864", "8388608", "50", "/child"], "{handler}");

        // Whoever comes later finds a place, too; and no way to other pods.
        let placed = world
            .printed(&running.id, &["cat", "/proc/self/cgroup"])
            .await;
        assert!(placed.starts_with("0::/"), "{handler}: {placed}");
        let look = format!(
            "find /sys/fs/cgroup -name '*{}*'; ls -d /sys/fs/cgroup/../cgroup/../*.slice 2> /dev/null; true",
            neighbour.id
        );
        let found = world.printed(&running.id, &["sh", "-c", &look]).await;
        assert_eq!(found, "", "{handler}");
        let pids = cgroup_of(&world, &neighbour.id, "").join("cgroup.procs");
        let pids = std::fs::read_to_string(pids).expect("its processes");
        assert_eq!(pids.lines().count(), 1, "{handler}: {pids}");
        world.cri.remove_pod(&running.pod_id).await.expect("remove");
    }

    // Nobody else has more than a look at them.
    let script = "mkdir /sys/fs/cgroup/child 2>&1; cat /sys/fs/cgroup/memory.max";
    for (handler, asks) in [("", "true"), ("asked", "false")] {
        let pod = world
            .node
            .pod(&format!("not-{handler}"))
            .annotation(DIVIDES, asks);
        let said = said(&world, &pod, handler, script).await;
        assert!(
            said[0].contains("Read-only file system"),
            "{handler}: {said:?}"
        );
    }
    let pod = world.node.pod("wrong").annotation(DIVIDES, "yes");
    let pod_id = run_by(&world, &pod, "asked").await.expect("a pod");
    let refused = world
        .cri
        .create(&pod_id, &pod, &world.container("main"))
        .await;
    let refused = refused.expect_err("neither true nor false");
    assert!(refused.message().contains(DIVIDES), "{refused}");
    world.finish().await;
}
