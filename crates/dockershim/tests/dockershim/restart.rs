//! A start beside an engine that has pods of an earlier run, and does not tell of each.

use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt as _};
use orlop_cri_api::inspection::ListEventsRequest;
use orlop_cri_api::inspection::inspection_server::Inspection as _;
use orlop_cri_api::v1::runtime_service_server::RuntimeService as _;
use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType, GetEventsRequest};
use orlop_cri_server::events::{Caller, Events, Listener};
use orlop_dockershim::Shim;
use orlop_testkit::Scratch;
use orlop_testkit::docker::PretendedEngine;
use serde_json::{Value, json};
use tonic::{Request, Status};

/// Long enough for what does not wait for an engine that hangs, and less than one is waited for.
const SOON: Duration = Duration::from_secs(5);

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn sandbox(digit: char, name: &str) -> Value {
    json!({
        "Id": id(digit),
        "Name": format!("/k8s_POD_{name}_default_uid_0"),
        "Created": a_minute_ago(),
        "State": { "Running": true, "Status": "running", "StartedAt": a_minute_ago() },
        "Config": { "Labels": { "io.kubernetes.docker.type": "podsandbox" } },
    })
}

fn container(digit: char, of: char, pod: &str, log: &str) -> Value {
    json!({
        "Id": id(digit),
        "Name": format!("/k8s_main_{pod}_default_uid_0"),
        "Created": a_minute_ago(),
        "State": { "Running": true, "Status": "running", "StartedAt": a_minute_ago() },
        "Config": { "Labels": {
            "io.kubernetes.docker.type": "container",
            "io.kubernetes.sandbox.id": id(of),
            "io.kubernetes.container.logpath": log,
        } },
    })
}

fn a_minute_ago() -> String {
    let then = SystemTime::now() - Duration::from_mins(1);
    jiff::Timestamp::try_from(then).unwrap().to_string()
}

async fn start(engine: &PretendedEngine, scratch: &Scratch) -> Shim {
    start_patiently(engine, scratch, Duration::from_mins(1)).await
}

async fn start_patiently(engine: &PretendedEngine, scratch: &Scratch, limit: Duration) -> Shim {
    let mut config = crate::config::config(scratch, engine.socket());
    config.request_timeout = limit;
    config.event_backlog = Duration::from_mins(5);
    let shim = Shim::start(config, orlop_cri_server::timeline::Metrics::default());
    shim.await.expect("start")
}

async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    orlop_testkit::wait_until!(SOON, is_so().await, "{what}");
}

/// Has the engine send an event about a container, padded with this many bytes.
fn happens(engine: &PretendedEngine, action: &str, one: &Value, padding: usize) {
    let mut attributes = one["Config"]["Labels"].clone();
    attributes["name"] = one["Name"].as_str().unwrap().trim_start_matches('/').into();
    attributes["padding"] = "x".repeat(padding).into();
    engine.happens(&json!({
        "Action": action,
        "Actor": { "ID": one["Id"], "Attributes": attributes },
        "timeNano": orlop_cri_server::clock::now(),
    }));
}

/// The next event that the shim tells.
async fn next(
    told: &mut (impl Stream<Item = Result<ContainerEventResponse, Status>> + Unpin),
) -> ContainerEventResponse {
    let event = tokio::time::timeout(SOON, told.next()).await;
    event
        .expect("an event within the time limit")
        .unwrap()
        .unwrap()
}

/// Whether an event is kept that names something.
async fn is_kept(shim: &Shim, id: &str) -> bool {
    kept_of(shim, id).await > 0
}

/// How many events are kept that name something.
async fn kept_of(shim: &Shim, id: &str) -> usize {
    let request = Request::new(ListEventsRequest { since: 0 });
    let kept = shim.list_events(request).await.unwrap().into_inner();
    let names = |event: &&Vec<u8>| event.windows(id.len()).any(|part| part == id.as_bytes());
    kept.events.iter().filter(names).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_an_engine_hangs_over_keeps_no_word_of_the_others_back() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    let log = |name: &str| scratch.path(name).display().to_string();
    engine.keeps(sandbox('c', "hung"));
    engine.hangs_over(container('d', 'c', "hung", &log("hung.log")));
    engine.keeps(sandbox('a', "well"));
    engine.keeps(container('b', 'a', "well", &log("well.log")));
    let shim = start(&engine, &scratch).await;
    let told = shim.get_container_events(Request::new(GetEventsRequest {}));
    let mut told = told.await.unwrap().into_inner();
    let logs = format!("/containers/{}/logs", id('b'));
    soon("the log is read on", async || engine.asked(&logs) > 0).await;
    let both = async || kept_of(&shim, &id('b')).await == 2;
    soon("what was is kept", both).await;
    let well = container('b', 'a', "well", "");
    happens(&engine, "die", &well, 0);
    let event = next(&mut told).await;
    let what = event.container_event_type();
    assert_eq!(what, ContainerEventType::ContainerStoppedEvent);
    assert_eq!(event.container_id, id('b'));
    assert_eq!(event.pod_sandbox_status.unwrap().id, id('a'));
    assert_eq!(kept_of(&shim, &id('d')).await, 0, "it hangs over this one");
    shim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_while_the_engine_hangs_over_it_keeps_no_other_s_end_back() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('c', "hung"));
    engine.hangs_over(container('d', 'c', "hung", ""));
    engine.keeps(sandbox('a', "well"));
    engine.keeps(container('b', 'a', "well", ""));
    let shim = start(&engine, &scratch).await;
    let both = async || kept_of(&shim, &id('b')).await == 2;
    soon("what was is kept", both).await;
    let told = shim.get_container_events(Request::new(GetEventsRequest {}));
    let mut told = told.await.unwrap().into_inner();
    let happens = |action: &str, one: char, of: char| {
        happens(&engine, action, &container(one, of, "pod", ""), 0);
    };
    let path = format!("/containers/{}/json", id('d'));
    let before = engine.asked(&path);
    // Each is asked about, the one as it was started by hand and the other as it ends.
    happens("start", 'd', 'c');
    happens("die", 'd', 'c');
    soon("it is asked about", async || engine.asked(&path) > before).await;
    for (action, what) in [
        ("die", ContainerEventType::ContainerStoppedEvent),
        ("start", ContainerEventType::ContainerStartedEvent),
        ("die", ContainerEventType::ContainerStoppedEvent),
    ] {
        happens(action, 'b', 'a');
        let event = next(&mut told).await;
        assert_eq!(event.container_event_type(), what);
        assert_eq!(event.container_id, id('b'));
    }
    shim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_an_engine_hangs_over_is_told_when_it_recovers() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('c', "hung"));
    engine.hangs_over(container('d', 'c', "hung", ""));
    let shim = start_patiently(&engine, &scratch, Duration::from_secs(1)).await;
    let told = shim.get_container_events(Request::new(GetEventsRequest {}));
    let mut told = told.await.unwrap().into_inner();
    let path = format!("/containers/{}/json", id('d'));
    // Until it listens.
    let listens = async || engine.asked("/containers/json") > 0;
    soon("it is listened to", listens).await;
    let before = engine.asked(&path);
    let mut ended = container('d', 'c', "hung", "");
    ended["State"] = json!({ "Running": false, "Status": "exited", "ExitCode": 7 });
    engine.hangs_over(ended.clone());
    happens(&engine, "die", &ended, 0);
    soon("it is asked about", async || engine.asked(&path) > before).await;
    // Longer than it is waited for.
    tokio::time::sleep(Duration::from_secs(2)).await;
    engine.keeps(ended);
    let event = tokio::time::timeout(Duration::from_secs(20), told.next()).await;
    let event = event.expect("it is told at last").unwrap().unwrap();
    let what = event.container_event_type();
    assert_eq!(what, ContainerEventType::ContainerStoppedEvent);
    assert_eq!(event.container_id, id('d'));
    shim.stop().await;
}

/// What an image's labels claim is no container of the pod: it is neither counted, nor ended with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_pretends_to_be_a_pod_s_is_not_in_the_state() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('a', "pod"));
    engine.keeps(container('b', 'a', "pod", ""));
    let mut pretends = container('d', 'a', "pod", "");
    pretends["Name"] = "/somebodys".into();
    engine.keeps(pretends);
    let shim = start(&engine, &scratch).await;
    let state = shim.state().await.unwrap().to_string();
    assert!(state.contains(&id('b')), "{state}");
    assert!(!state.contains(&id('d')), "{state}");
    let status = orlop_cri_api::v1::PodSandboxStatusRequest {
        pod_sandbox_id: id('a'),
        verbose: false,
    };
    let status = shim.pod_sandbox_status(Request::new(status)).await;
    assert_eq!(status.unwrap().into_inner().status.unwrap().id, id('a'));
    let asked = |id: &str, what: &str| engine.asked(&format!("/containers/{id}/{what}"));
    let stop = orlop_cri_api::v1::StopPodSandboxRequest {
        pod_sandbox_id: id('a'),
    };
    let _ = shim.stop_pod_sandbox(Request::new(stop)).await;
    assert!(asked(&id('b'), "stop") + asked(&id('b'), "kill") > 0);
    assert_eq!(asked(&id('d'), "stop") + asked(&id('d'), "kill"), 0);
    shim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_of_an_earlier_run_is_looked_at_once_for_all_that_happened_to_it() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('a', "pod"));
    let containers = ['b', 'c', 'd', 'e'];
    for one in containers {
        engine.keeps(container(one, 'a', "pod", ""));
    }
    let earlier = Events::default();
    earlier.keep(Duration::from_mins(5));
    earlier.survive_in(&scratch.path("listeners"));
    let listens = earlier.subscribe(Listener::of(Caller(std::process::id())));
    earlier.write_down();
    let shim = start(&engine, &scratch).await;
    drop(listens);
    for one in containers {
        let both = async || kept_of(&shim, &id(one)).await == 2;
        soon("what was is kept", both).await;
    }
    let path = |of| format!("/containers/{}/json", id(of));
    // Once for what is on record of each, once for the pod as it is now, and once for where its log is.
    let looks = async || engine.asked(&path('e')) == 3;
    soon("the pod is looked at", looks).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(engine.asked(&path('a')), 2);
    assert_eq!(containers.map(|one| engine.asked(&path(one))), [3; 4]);
    shim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_s_labels_have_no_log_written_for_a_container_that_is_no_pod_s() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('a', "pod"));
    let foreign = |digit, name: &str, of, log: &str| {
        let log = scratch.path(log).display().to_string();
        let mut found = container(digit, of, "pod", &log);
        found["Name"] = format!("/{name}").into();
        found
    };
    let all = [
        foreign('c', "evil", 'a', "named.log"),
        foreign('d', "k8s_main_gone_default_uid_0", '9', "gone.log"),
        foreign('e', "k8s_main_self_default_uid_0", 'e', "self.log"),
    ];
    // As it may be when the daemon starts.
    for one in &all {
        engine.keeps(one.clone());
    }
    let ours = foreign('b', "k8s_main_pod_default_uid_0", 'a', "ours.log");
    engine.keeps(ours.clone());
    let shim = start(&engine, &scratch).await;
    let ours_log = scratch.path("ours.log");
    soon("the pod's log is written", async || ours_log.exists()).await;
    // And as it is started by hand.
    let told = shim.get_container_events(Request::new(GetEventsRequest {}));
    let mut told = told.await.unwrap().into_inner();
    for one in all.iter().chain([&ours]) {
        happens(&engine, "start", one, 0);
        let event = next(&mut told).await;
        assert_eq!(event.container_id, one["Id"].as_str().unwrap());
    }
    for log in ["named.log", "gone.log", "self.log"] {
        assert!(!scratch.path(log).exists(), "{log}");
    }
    shim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_longer_than_any_is_passed_over_and_what_it_told_is_found_out() {
    let scratch = Scratch::new();
    let engine = PretendedEngine::start(scratch.run(), false);
    engine.keeps(sandbox('a', "pod"));
    let shim = start(&engine, &scratch).await;
    let looks = async || engine.asked("/containers/json");
    soon("the engine is kept up with", async || looks().await > 0).await;
    soon("what was is kept", async || is_kept(&shim, &id('a')).await).await;
    assert_eq!(engine.asked("/events"), 1);
    let long = container('b', 'a', "pod", "");
    engine.keeps(long.clone());
    happens(&engine, "start", &long, 2 << 20);
    let short = container('c', 'a', "pod", "");
    happens(&engine, "start", &short, 0);
    soon("the next one is heard", async || {
        is_kept(&shim, &id('c')).await
    })
    .await;
    soon("it is found out", async || is_kept(&shim, &id('b')).await).await;
    assert_eq!(engine.asked("/events"), 1, "the stream goes on");
    shim.stop().await;
}
