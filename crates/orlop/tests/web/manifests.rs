//! The page of an agent, which knows of manifests.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use orlop_testkit::leaks;
use orlop_testkit::node::binary;
use orlop_testkit::process::Process;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::world::world;

const SOON: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_told_with_their_mistakes_and_what_probes_answered() {
    let world = world!();
    let scratch = world.node.scratch();
    let manifests = scratch.subdir("manifests");
    let good = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  hostNetwork: true\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    image: '{}'\n    \
         imagePullPolicy: Never\n    command: [sleep, '600']\n    readinessProbe:\n      \
         exec: {{command: [sh, -c, 'echo no; exit 3']}}\n      periodSeconds: 1\n",
        world.busybox
    );
    std::fs::write(manifests.join("good.yaml"), good).unwrap();
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  containers: 7\n";
    std::fs::write(manifests.join("bad.yaml"), bad).unwrap();
    let root = scratch.subdir("agent");
    let mut command = Command::new(binary());
    command
        .arg("node")
        .arg("--container-runtime-endpoint")
        .arg(format!("unix://{}", world.node.socket().display()))
        .arg("--pod-manifest-path")
        .arg(&manifests)
        .arg("--root-dir")
        .arg(&root)
        .arg("--control-socket")
        .arg(scratch.run().join("agent.sock"))
        .arg("--pod-logs-dir")
        .arg(scratch.subdir("pod-logs"))
        .arg("--cgroup-root")
        .arg(format!("/{}", world.node.id()))
        .args(["--container-logs-dir=", "--hostname-override", "n1"])
        .args(["--port=0", "--healthz-port=0", "--eviction-hard="])
        .arg("--web");
    let log = scratch.path("agent.log");
    let mut agent = Process::spawn("the agent", &mut command, &log);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    agent.wait_until(SOON, "where the page's address is", || {
        said().contains("the address of the web page is in ")
    });
    assert!(!said().contains("token="), "no journal has it");
    let file = root.join("web.url");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let address = std::fs::read_to_string(file).unwrap();
    let browser = Browser::open(address.trim()).await;
    let mut events = browser.events("/api/live").await;
    assert_eq!(events.next_of("hello").await["can"]["manifests"], true);

    let told = async || {
        let answer = browser.document("/api/manifests").await;
        let all = answer["manifests"].as_array().unwrap().clone();
        let of = |file: &str| {
            let is_its = |one: &&Value| one["file"].as_str().is_some_and(|it| it.ends_with(file));
            all.iter().find(is_its).cloned()
        };
        (of("good.yaml"), of("bad.yaml"))
    };
    let mut good = Value::Null;
    for _ in 0..400 {
        good = told().await.0.unwrap_or_default();
        if good["probes"][0]["failures"].as_u64() > Some(0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        (&good["pod"], &good["ok"]),
        (&json!("web-n1"), &json!(true)),
        "{good}"
    );
    let probe = &good["probes"][0];
    assert_eq!(
        (&probe["container"], &probe["kind"]),
        (&json!("main"), &json!("readiness"))
    );
    assert_eq!(probe["ok"], false, "{good}");
    let answer = probe["last"]["answer"].as_str().unwrap();
    assert!(
        answer.contains("no") && probe["last"]["time"].as_f64() > Some(1e12),
        "{good}"
    );
    let pods = world.cri.pods().await.unwrap();
    assert_eq!(good["pod_id"], json!(pods[0]), "{good}");
    let bad = told().await.1.expect("the bad one");
    assert_eq!(bad["ok"], false);
    assert!(bad["problems"][0]["line"].as_u64().is_some(), "{bad}");
    drop(events);
    std::fs::remove_file(manifests.join("good.yaml")).unwrap();
    let of_pods = || {
        let mut cgroups = leaks::cgroups(world.node.id()).into_iter();
        cgroups.any(|path| path.to_string_lossy().contains("/besteffort/"))
    };
    agent.wait_until(SOON, "the pod's end", || !of_pods());
    assert!(agent.stop(SOON).success(), "{}", agent.log());
    // The cgroups of classes stay, as a kubelet's do.
    for cgroup in leaks::cgroups(world.node.id()).into_iter().rev() {
        let name = cgroup
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if matches!(name.as_str(), "kubepods" | "burstable" | "besteffort") {
            let _ = std::fs::remove_dir(&cgroup);
        }
    }
    world.finish().await;
}
