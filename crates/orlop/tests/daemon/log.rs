//! The daemon's log as its readers get it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    AuthConfig, ContainerConfig, CreateContainerRequest, ExecSyncRequest, ImageSpec, KeyValue,
    PodSandboxConfig, PullImageRequest,
};
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, Registry, assert_contains, leaks};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// A daemon whose standard error is a file.
struct Logged {
    dir: TempDir,
    child: Child,
}

impl Logged {
    fn start(args: &[&str], journal: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let log = File::create(path("log")).unwrap();
        let found = log.metadata().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command.arg("serve").args(args);
        // The node's own plugins are no business of a test.
        fs::write(path("config.toml"), "[nri]\nenable = false\n").unwrap();
        command.arg("--config").arg(path("config.toml"));
        command
            .arg("--root")
            .arg(path("root"))
            .arg("--state")
            .arg(path("state"));
        command.arg("--listen").arg(path("o.sock"));
        let stream = if journal {
            format!("{}:{}", found.dev(), found.ino())
        } else {
            // As a shell in a service has it, whose output somebody sent elsewhere.
            "1:1".to_owned()
        };
        command.env("JOURNAL_STREAM", stream);
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        Self { dir, child }
    }

    fn line_with(&self, words: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(
                Instant::now() < deadline,
                "no line with {words:?} in\n{log}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        leaks::let_go(&self.dir.path().join("state"));
    }
}

#[test]
fn the_journal_gets_priorities_and_no_time_of_ours() {
    let daemon = Logged::start(&[], true);
    let line = daemon.line_with("starting orlop");
    let start = concat!(
        "<6>orlop::serve::start: starting orlop version=\"",
        env!("CARGO_PKG_VERSION"),
        "\""
    );
    assert!(line.starts_with(start), "{line}");
}

#[test]
fn elsewhere_each_line_is_an_object() {
    let daemon = Logged::start(&[], false);
    let line = daemon.line_with("starting orlop");
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["level"], "INFO");
    assert_eq!(object["message"], "starting orlop");
    assert_eq!(object["backend"], "native");
}

#[tokio::test]
async fn a_call_is_logged_with_its_id_and_its_caller() {
    let node = Node::orlop().arg("--log-level=debug").start().await;
    let cri = node.cri().await;
    let mut request = tonic::Request::new(orlop_cri_api::v1::VersionRequest::default());
    request
        .metadata_mut()
        .insert("x-request-id", "from-the-test".parse().unwrap());
    let answer = cri.runtime().version(request).await.unwrap();
    assert_eq!(
        answer.metadata().get("x-request-id").unwrap(),
        "from-the-test"
    );
    let log = node.log();
    let line = log
        .lines()
        .find(|line| line.contains("from-the-test"))
        .unwrap_or_else(|| panic!("the call is not in the log:\n{log}"));
    assert_contains!(line, &format!("\"pid\":{}", std::process::id()));
    assert!(line.contains("\"method\":\"Version\""), "{line}");
}

#[tokio::test]
async fn secrets_are_not_logged_even_at_trace() {
    let node = Node::orlop()
        .arg("--log-level=trace,h2=debug,hyper=debug")
        .start()
        .await;
    let cri = node.cri().await;
    let secret = || "a-word-nobody-may-read".to_owned();
    let image = ImageSpec {
        image: "127.0.0.1:1/x:1".to_owned(),
        ..ImageSpec::default()
    };
    let auth = AuthConfig {
        username: "me".to_owned(),
        password: secret(),
        identity_token: secret(),
        registry_token: secret(),
        ..AuthConfig::default()
    };
    let pull = PullImageRequest {
        image: Some(image),
        auth: Some(auth),
        ..Default::default()
    };
    let _ = cri.images().pull_image(pull).await;
    let exec = ExecSyncRequest {
        container_id: "none".to_owned(),
        cmd: vec!["login".to_owned(), secret()],
        timeout: 1,
    };
    let _ = cri.runtime().exec_sync(exec).await;
    let envs = vec![KeyValue {
        key: "TOKEN".to_owned(),
        value: secret().into(),
    }];
    let create = CreateContainerRequest {
        pod_sandbox_id: "none".to_owned(),
        config: Some(ContainerConfig {
            envs,
            ..ContainerConfig::default()
        }),
        sandbox_config: Some(PodSandboxConfig::default()),
    };
    let _ = cri.runtime().create_container(create).await;
    let log = node.log();
    assert_contains!(log, "PullImage", "ExecSync");
    assert!(!log.contains(&secret()), "a secret is in the log:\n{log}");
}

#[tokio::test]
async fn calls_that_succeed_log_no_secret_either() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let node = Node::orlop()
        .arg("--log-level=trace,h2=debug,hyper=debug")
        .start()
        .await;
    let cri = node.cri().await;
    let registry = Registry::start_with_login();
    let login = registry.login().expect("asks for a login").clone();
    let image = ImageBuilder::busybox().build();
    let reference = registry.push(&image, "busybox:1").await;
    let auth = AuthConfig {
        username: login.user.clone(),
        password: login.password.clone(),
        ..AuthConfig::default()
    };
    cri.pull_as(&reference, Some(auth)).await.expect("pull");
    let secret = "a-word-nobody-may-read";
    let pod = node.pod("secretive");
    let pod_id = cri.run_pod(&pod).await.expect("run a pod");
    let spec = ContainerSpec::new("main", &reference).env("TOKEN", secret);
    let spec = spec.command(&["sh", "-c", "sleep 600", secret]);
    let id = cri.run(&pod_id, &pod, &spec).await.expect("run");
    let words = ["sh", "-c", "echo $TOKEN", secret];
    let answer = cri.exec(&id, &words).await.expect("exec");
    assert_eq!(answer.stdout, format!("{secret}\n").as_bytes());
    let log = node.log();
    assert!(log.contains("StartContainer"), "{log}");
    let is_password = |word: &str| word == login.password;
    let of_registry = log
        .split(|it: char| !it.is_alphanumeric())
        .find(|word| is_password(word));
    assert_eq!(of_registry, None, "the password is in the log:\n{log}");
    for word in [secret, login.basic().trim_start_matches("Basic ")] {
        assert!(!log.contains(word), "{word} is in the log:\n{log}");
    }
    node.finish().await;
}
