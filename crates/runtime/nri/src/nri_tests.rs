//! Tests with plugins that connect, answer, hang and disconnect.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use tokio::time::timeout;

use super::*;
use crate::config::Listen;
use crate::connection::Status;
use crate::runtime::BoxFuture;
use crate::stub::{Answer, Stub};
use crate::v1alpha1::{
    ConfigureResponse, KeyValue, StateChangeEvent, SynchronizeRequest, SynchronizeResponse,
};
use crate::validator::Validator;

/// A runtime with one pod and the given number of containers.
#[derive(Default)]
struct FakeRuntime {
    containers: usize,
    told: Mutex<Vec<(String, String)>>,
}

impl Runtime for FakeRuntime {
    fn snapshot(&self) -> BoxFuture<'_, (Vec<PodSandbox>, Vec<Container>)> {
        let container = |n| Container {
            id: format!("c{n}"),
            env: vec!["X=".to_owned() + &"x".repeat(1000)],
            ..Container::default()
        };
        let containers = (0..self.containers).map(container).collect();
        Box::pin(async move { (vec![pod()], containers) })
    }

    fn update(
        &self,
        plugin: String,
        updates: Vec<ContainerUpdate>,
    ) -> BoxFuture<'_, Vec<ContainerUpdate>> {
        for update in &updates {
            self.told
                .lock()
                .push((plugin.clone(), format!("update {}", update.container_id)));
        }
        let failed = updates.into_iter().filter(|one| one.container_id == "bad");
        let failed = failed.collect();
        Box::pin(async move { failed })
    }

    fn evict(&self, plugin: String, evictions: Vec<ContainerEviction>) -> BoxFuture<'_, ()> {
        for one in &evictions {
            self.told
                .lock()
                .push((plugin.clone(), format!("evict {}", one.container_id)));
        }
        Box::pin(async {})
    }
}

/// Behavior of a test plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Adds this environment variable to each container.
    Adds(&'static str),
    /// Rejects everything.
    Refuses,
    /// Never answers after its synchronization.
    Hangs,
    /// Never answers the call with the node's state.
    IsStunned,
    /// Answers with bytes that are not a valid message.
    Babbles,
    /// Implements only StateChange.
    IsOld,
    /// Rejects in validation.
    Rejects,
    /// Subscribes to unknown events.
    Overreaches,
}

struct TestPlugin {
    manner: Manner,
    calls: Mutex<Vec<String>>,
    known: Mutex<usize>,
}

impl TestPlugin {
    /// Waits until a method was called.
    async fn called(&self, method: &str) {
        let is_called = || self.calls.lock().iter().any(|call| call == method);
        orlop_testkit::wait_until!(Duration::from_secs(20), is_called(), "no {method}");
    }
}

impl Answer for TestPlugin {
    fn answer(&self, method: String, request: Bytes) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(async move {
            self.calls.lock().push(method.clone());
            match method.as_str() {
                "Configure" => {
                    let events = match self.manner {
                        Manner::Rejects => {
                            Events::NONE.and(Event::ValidateContainerAdjustment).bits()
                        }
                        Manner::Overreaches => 1 << 20,
                        _ => Events::ALL.bits() & !(1 << 13),
                    };
                    return Ok(ConfigureResponse { events }.encode_to_vec());
                }
                "Synchronize" if self.manner == Manner::IsStunned => {
                    return std::future::pending().await;
                }
                "Synchronize" => {
                    let request = SynchronizeRequest::decode(request).unwrap();
                    *self.known.lock() += request.containers.len();
                    let more = request.more;
                    let update = Vec::new();
                    return Ok(SynchronizeResponse { update, more }.encode_to_vec());
                }
                _ => {}
            }
            match (self.manner, method.as_str()) {
                (Manner::Refuses, _) => {
                    Err(Status::new(crate::StatusCode::Unknown, "not on my watch"))
                }
                (Manner::Hangs, _) => std::future::pending().await,
                (Manner::Babbles, _) => Ok(vec![0xff; 9]),
                (Manner::IsOld, "StateChange") => {
                    let change = StateChangeEvent::decode(request).unwrap();
                    self.calls.lock().push(format!("changed {}", change.event));
                    Ok(Vec::new())
                }
                (Manner::IsOld, _) => Err(Status::unimplemented("Plugin", &method)),
                (Manner::Rejects, _) => {
                    let answer = ValidateContainerAdjustmentResponse {
                        reject: true,
                        reason: "not like this".into(),
                    };
                    Ok(answer.encode_to_vec())
                }
                (Manner::Adds(name), "CreateContainer") => {
                    let variable = KeyValue {
                        key: name.into(),
                        value: "1".into(),
                    };
                    let answer = CreateContainerResponse {
                        adjust: Some(ContainerAdjustment {
                            env: vec![variable],
                            ..ContainerAdjustment::default()
                        }),
                        ..CreateContainerResponse::default()
                    };
                    Ok(answer.encode_to_vec())
                }
                _ => Ok(Vec::new()),
            }
        })
    }
}

struct Bench {
    nri: Nri,
    runtime: Arc<FakeRuntime>,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn with(validator: Option<Validator>, containers: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nri.sock");
        let config = Config {
            runtime: ("orlop".into(), "1".into()),
            listen: Listen::At(socket.clone()),
            plugin_dir: dir.path().join("plugins"),
            plugin_config_dir: dir.path().join("conf.d"),
            registration_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_millis(500),
            validator,
        };
        let nri = Nri::new(Some(config), Metrics::default());
        let runtime = Arc::new(FakeRuntime {
            containers,
            ..FakeRuntime::default()
        });
        nri.start(Arc::clone(&runtime) as Arc<dyn Runtime>).await;
        Self {
            nri,
            runtime,
            socket,
            _dir: dir,
        }
    }

    async fn new() -> Self {
        Self::with(None, 1).await
    }

    async fn plugin(&self, index: &str, name: &str, manner: Manner) -> (Arc<TestPlugin>, Stub) {
        let before = self.nri.list().len();
        let (plugin, stub) = self.connect(index, name, manner).await;
        orlop_testkit::wait_until!(
            Duration::from_secs(20),
            self.nri.list().len() != before,
            "{name} never took part"
        );
        (plugin, stub)
    }

    async fn connect(&self, index: &str, name: &str, manner: Manner) -> (Arc<TestPlugin>, Stub) {
        let plugin = Arc::new(TestPlugin {
            manner,
            calls: Mutex::default(),
            known: Mutex::default(),
        });
        let answer = Arc::clone(&plugin) as Arc<dyn Answer>;
        let stub = Stub::connect(&self.socket, (index, name), answer).await;
        (plugin, stub.unwrap())
    }

    async fn create(&self) -> Result<Vec<String>> {
        let created = self.nri.create(pod(), container()).await?;
        let env = created.adjust.env.into_iter();
        Ok(env.map(|one| one.key).collect())
    }

    /// Waits until a plugin is registered.
    async fn joined(&self) {
        let limit = Duration::from_secs(20);
        orlop_testkit::wait_until!(limit, !self.names().is_empty(), "no plugin takes part");
    }

    fn names(&self) -> Vec<String> {
        let list = self.nri.list().into_iter();
        list.map(|one| format!("{}-{}", one.index, one.name))
            .collect()
    }
}

fn pod() -> PodSandbox {
    PodSandbox {
        id: "p".into(),
        ..PodSandbox::default()
    }
}

fn container() -> Container {
    Container {
        id: "new".into(),
        ..Container::default()
    }
}

#[tokio::test]
async fn nobody_is_asked_where_nobody_listens() {
    let bench = Bench::new().await;
    assert!(!bench.nri.wants(Event::CreateContainer));
    let (_, stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    assert!(bench.nri.wants(Event::CreateContainer));
    assert!(!bench.nri.wants(Event::ValidateContainerAdjustment));
    stub.close();
    orlop_testkit::wait_until!(
        Duration::from_secs(10),
        !bench.nri.wants(Event::CreateContainer),
        "one that has left is asked"
    );
    bench.nri.stop().await;
    assert!(!bench.socket.exists());
    let off = Nri::new(None, Metrics::default());
    assert!(!off.is_on() && !off.wants(Event::RunPodSandbox));
}

#[tokio::test]
async fn plugins_are_asked_in_the_order_of_their_index() {
    let bench = Bench::new().await;
    let (_b, _stub) = bench.plugin("20", "b", Manner::Adds("B")).await;
    let (_a, _stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    assert_eq!(bench.names(), ["10-a", "20-b"]);
    assert_eq!(bench.create().await.unwrap(), ["A", "B"]);
    let (_c, _stub) = bench.plugin("30", "c", Manner::Adds("A")).await;
    let conflict = bench.create().await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
}

#[tokio::test]
async fn a_refusal_fails_the_operation_and_keeps_the_plugin() {
    let bench = Bench::new().await;
    let (_plugin, _stub) = bench.plugin("10", "no", Manner::Refuses).await;
    let error = bench.nri.run_pod(pod()).await.unwrap_err();
    let Error::Plugin {
        plugin,
        call,
        source,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((plugin.as_str(), call), ("10-no", "RunPodSandbox"));
    assert!(source.to_string().contains("not on my watch"));
    assert_eq!(bench.names(), ["10-no"]);
}

#[tokio::test]
async fn one_that_hangs_or_babbles_is_closed_and_the_others_go_on() {
    let bench = Bench::new().await;
    let (_h, hanging) = bench.plugin("10", "hangs", Manner::Hangs).await;
    let (_a, _stub) = bench.plugin("20", "a", Manner::Adds("A")).await;
    let (_b, babbling) = bench.plugin("30", "babbles", Manner::Babbles).await;
    assert_eq!(bench.create().await.unwrap(), ["A"]);
    assert_eq!(bench.names(), ["20-a"]);
    hanging.closed().await;
    babbling.closed().await;
}

#[tokio::test]
async fn an_older_plugin_hears_of_changes_in_its_own_way() {
    let bench = Bench::new().await;
    let (plugin, _stub) = bench.plugin("10", "old", Manner::IsOld).await;
    bench.nri.run_pod(pod()).await.unwrap();
    bench.nri.run_pod(pod()).await.unwrap();
    bench
        .nri
        .container(Event::StartContainer, pod(), container())
        .await
        .unwrap();
    let calls = plugin.calls.lock().clone();
    assert_eq!(
        calls[2..],
        [
            "RunPodSandbox",
            "StateChange",
            "changed 1",
            "StateChange",
            "changed 1",
            "StartContainer",
            "StateChange",
            "changed 6"
        ]
    );
}

#[tokio::test]
async fn validators_have_the_last_word() {
    let bench = Bench::new().await;
    let (_a, _stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    let (_v, _stub) = bench.plugin("90", "v", Manner::Rejects).await;
    let error = bench.create().await.unwrap_err().to_string();
    orlop_testkit::assert_contains!(error, "90-v", "not like this");

    let rules = Validator {
        required_plugins: vec!["a".into()],
        ..Validator::default()
    };
    let strict = Bench::with(Some(rules), 1).await;
    assert!(strict.nri.wants(Event::CreateContainer));
    let error = strict.create().await.unwrap_err();
    assert!(matches!(error, Error::Rejected { .. }), "{error}");
    let (_a, _stub) = strict.plugin("10", "a", Manner::Adds("A")).await;
    strict.create().await.unwrap();
}

#[tokio::test]
async fn a_plugin_learns_of_more_than_one_message_holds() {
    let bench = Bench::with(None, 9000).await;
    let (plugin, _stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    assert_eq!(*plugin.known.lock(), 9000);
    let parts = plugin
        .calls
        .lock()
        .iter()
        .filter(|call| *call == "Synchronize")
        .count();
    assert!(parts > 2, "{parts}");
}

#[tokio::test]
async fn a_plugin_waits_until_operations_under_way_can_be_seen() {
    let bench = Bench::new().await;
    let hold = bench.nri.hold().await;
    let (_plugin, _stub) = bench.connect("10", "a", Manner::Adds("A")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(bench.names().is_empty());
    drop(hold);
    bench.joined().await;
}

#[tokio::test]
async fn operations_go_on_while_a_new_plugin_waits_for_one_that_hangs() {
    let bench = Bench::new().await;
    let hangs = bench.nri.hold().await;
    let (plugin, _stub) = bench.connect("10", "a", Manner::Adds("A")).await;
    plugin.called("Configure").await;
    let mut longest = Duration::ZERO;
    for _ in 0..30 {
        let began = Instant::now();
        drop(bench.nri.hold().await);
        longest = longest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(bench.names().is_empty());
    drop(hangs);
    bench.joined().await;
}

#[tokio::test]
async fn operations_pass_a_new_plugin_that_does_not_take_the_nodes_state() {
    let bench = Bench::new().await;
    let (plugin, _stub) = bench.connect("10", "a", Manner::IsStunned).await;
    plugin.called("Synchronize").await;
    // Its registration times out after 20 seconds, calls of registered plugins after half a second. A plugin that needs
    // all of that to receive the state must not miss anything.
    let began = Instant::now();
    let passed = timeout(Duration::from_secs(8), bench.nri.hold()).await;
    drop(passed.unwrap());
    assert!(began.elapsed() > Duration::from_millis(600), "too soon");
    assert!(bench.names().is_empty());
}

#[tokio::test]
async fn updates_and_evictions_of_a_plugins_own_accord() {
    let bench = Bench::new().await;
    let (_plugin, stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    let update = |id: &str| ContainerUpdate {
        container_id: id.into(),
        ..ContainerUpdate::default()
    };
    let eviction = ContainerEviction {
        container_id: "old".into(),
        reason: "room".into(),
    };
    let failed = stub.update(vec![update("good"), update("bad")], vec![eviction]);
    assert_eq!(failed.await.unwrap(), [update("bad")]);
    let told = bench.runtime.told.lock().clone();
    let told: Vec<_> = told
        .iter()
        .map(|(who, what)| (who.as_str(), what.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("10-a", "evict old"),
            ("10-a", "update good"),
            ("10-a", "update bad")
        ]
    );
}

#[tokio::test]
async fn who_does_not_register_properly_is_turned_away() {
    let bench = Bench::new().await;
    for (index, name) in [("1", "a"), ("10", ""), ("10", "a b")] {
        let plugin = Arc::new(TestPlugin {
            manner: Manner::Adds("A"),
            calls: Mutex::default(),
            known: Mutex::default(),
        });
        let refused = Stub::connect(&bench.socket, (index, name), plugin).await;
        assert!(
            matches!(refused, Err(CallError::Refused(_))),
            "{index}-{name}"
        );
    }
    let (_plugin, stub) = bench.connect("10", "greedy", Manner::Overreaches).await;
    stub.closed().await;
    assert!(bench.names().is_empty());
}

#[tokio::test]
async fn what_must_be_there_must_be_there_after_a_change_too() {
    let rules = Validator {
        required_plugins: vec!["a".into()],
        ..Validator::default()
    };
    let bench = Bench::with(Some(rules), 1).await;
    let (_a, _stub) = bench.plugin("10", "a", Manner::Adds("A")).await;
    bench.create().await.unwrap();
    let mut config = Config::clone(&bench.nri.config().unwrap());
    config.request_timeout += Duration::from_secs(1);
    let prepared = bench.nri.prepare(Some(&config)).await.unwrap();
    bench.nri.reconfigure(Some(config.clone()), prepared).await;
    assert!(bench.nri.list().is_empty(), "they connect anew");
    assert!(bench.nri.wants(Event::CreateContainer));
    let error = bench.create().await.unwrap_err();
    assert!(matches!(error, Error::Rejected { .. }), "{error}");

    // No operation starts during a reconfiguration.
    let hold = bench.nri.hold().await;
    config.request_timeout += Duration::from_secs(1);
    let prepared = bench.nri.prepare(Some(&config)).await.unwrap();
    let changing = tokio::spawn({
        let nri = bench.nri.clone();
        async move { nri.reconfigure(Some(config), prepared).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!changing.is_finished(), "somebody makes something");
    drop(hold);
    changing.await.unwrap();

    let mut config = Config::clone(&bench.nri.config().unwrap());
    config.listen = Listen::At("/dev/null/nri.sock".into());
    bench.nri.prepare(Some(&config)).await.unwrap_err();
    assert!(bench.nri.is_listening());
}
