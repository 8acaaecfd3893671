//! Runtimes called without a keeper.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_launch::{Error, FailureKind, OciRuntime, RuntimeFault, detect};

const LIMIT: Duration = Duration::from_secs(20);

fn runc(dir: &Path) -> OciRuntime {
    OciRuntime::new("runc", "runc", dir.join("state"))
}

fn script(dir: &Path, name: &str, script: &str) -> OciRuntime {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    OciRuntime::new(name, path, dir.join("state"))
}

fn fault(error: &Error) -> RuntimeFault {
    match error {
        Error::Runtime(error) => error.fault,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn runc_says_what_it_is_and_can() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runc(dir.path());
    let version = runtime.version(LIMIT).await.unwrap();
    assert!(version.starts_with("runc version 1."), "{version}");
    let features = runtime.features(LIMIT).await.unwrap();
    assert!(features.recursive_read_only());
    assert!(features.linux.unwrap().seccomp.unwrap().enabled.unwrap());
}

#[tokio::test]
async fn an_unknown_container_is_an_error_in_the_runtime_s_words() {
    let dir = tempfile::tempdir().unwrap();
    let error = runc(dir.path()).state("nobody", LIMIT).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "runtime \"runc\" failed to state: container does not exist"
    );
    runc(dir.path()).delete("nobody", LIMIT).await.unwrap();
}

#[tokio::test]
async fn runtimes_that_do_not_play_along_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let old = script(
        dir.path(),
        "old",
        "echo unknown command: features >&2; exit 1",
    );
    assert_eq!(
        old.features(LIMIT).await.unwrap(),
        orlop_oci_types::Features::default()
    );

    let rubbish = script(dir.path(), "rubbish", "printf 'Welcome!\\033[31m'");
    let error = rubbish.features(LIMIT).await.unwrap_err();
    assert_eq!(fault(&error), RuntimeFault::Failed);
    assert!(error.to_string().contains("Welcome! [31m"), "{error}");

    let slow = script(dir.path(), "slow", "exec sleep 1000");
    let begin = Instant::now();
    let error = slow.version(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(fault(&error), RuntimeFault::TimedOut);
    assert!(begin.elapsed() < Duration::from_secs(5));

    let missing = OciRuntime::new("missing", dir.path().join("nowhere"), dir.path());
    assert_eq!(
        fault(&missing.version(LIMIT).await.unwrap_err()),
        RuntimeFault::Missing
    );
}

#[tokio::test]
async fn a_runtime_that_cannot_be_started_for_want_of_files_is_not_missing() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let dir = tempfile::tempdir().unwrap();
    let there = script(dir.path(), "there", "echo there");
    assert_eq!(there.version(LIMIT).await.unwrap(), "there");
    let before = getrlimit(Resource::Nofile);
    let mut few = before;
    few.current = Some(3);
    setrlimit(Resource::Nofile, few).unwrap();
    let error = there.version(LIMIT).await.unwrap_err();
    let features = there.features(LIMIT).await;
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(fault(&error), RuntimeFault::Exhausted);
    assert_eq!(error.failure_kind(), Some(FailureKind::Exhausted));
    assert!(error.to_string().contains("LimitNOFILE"), "{error}");
    assert_eq!(fault(&features.unwrap_err()), RuntimeFault::Exhausted);
    assert_eq!(there.version(LIMIT).await.unwrap(), "there");
}

#[tokio::test]
async fn the_first_runtime_that_really_works_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let says = r#"echo '{"level":"error","msg":"not on this host"}' >&2; exit 1"#;
    let refusing = script(dir.path(), "refusing", says);
    // Found by its version alone, one would think that it works.
    let boasting = script(dir.path(), "boasting", "[ \"$7\" != create ] || exit 7");
    let missing = OciRuntime::new("missing", "/no/such/runtime", dir.path());
    let cgroup = format!("/orlop-detect-test-{}", std::process::id());
    let all = [missing, refusing, boasting, runc(dir.path())];
    let detected = detect(all, dir.path(), &cgroup).await;
    let names: Vec<&str> = detected
        .rejected
        .iter()
        .map(|it| it.runtime.name.as_str())
        .collect();
    assert_eq!(names, ["missing", "refusing", "boasting"]);
    assert_eq!(detected.runtime.unwrap().name, "runc");
    assert_eq!(fault(&detected.rejected[0].error), RuntimeFault::Missing);

    // Nothing is left of the trials.
    let trials = fs::read_dir(dir.path()).unwrap().flatten();
    let mut left = trials.filter(|entry| entry.file_name().to_string_lossy().contains("trial"));
    assert!(left.next().is_none());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = table.lines().filter(|line| line.contains(" - cgroup"));
    for root in roots.filter_map(|line| line.split(' ').nth(4)) {
        let parent = Path::new(root).join(cgroup.trim_start_matches('/'));
        if parent.exists() {
            // Fails if a trial's cgroup is still in it.
            fs::remove_dir(parent).unwrap();
        }
    }
}
