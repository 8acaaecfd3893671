//! Secrets and surroundings: who sees them, and whose are taken over.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use orlop_cri_api::v1::AuthConfig;
use orlop_testkit::{Node, machine};

use crate::world::world;

const SECRET: &str = "hunter2-in-the-clear";

/// Neither `ps` nor a file that others may read nor the log shows what a pod was given.
#[tokio::test]
async fn secrets_are_not_shown_to_users_of_the_node() {
    let world = world!(Node::orlop().config("[log]\nlevel = \"trace\"\n"));
    let auth = AuthConfig {
        username: "sailor".to_owned(),
        password: SECRET.to_owned(),
        ..AuthConfig::default()
    };
    let _ = world.cri.pull_as(&world.busybox, Some(auth)).await;
    let spec = world
        .container("main")
        .shell("sleep 600")
        .env("TOKEN", SECRET);
    let running = world.run_container("secrets", &spec).await;
    let exec = world.cri.clone();
    let id = running.id.clone();
    let command = tokio::spawn(async move { exec.exec(&id, &["sleep", "2"]).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    for entry in fs::read_dir("/proc").expect("read").flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        assert!(!words.contains(SECRET), "ps shows {words:?}");
    }
    command.await.expect("join").expect("exec");
    assert!(!world.node.log().contains(SECRET), "the log has it");
    for top in [world.node.root(), world.node.state()] {
        for file in readable_by_all(&top) {
            let content = fs::read(&file).unwrap_or_default();
            let found = memchr_find(&content, SECRET.as_bytes());
            assert!(!found, "{} has it, for all to read", file.display());
        }
    }
    world.finish().await;
}

/// What a helper is run with: nothing of a container's environment, nor of the loader's.
#[tokio::test]
async fn helpers_have_no_hostile_environment() {
    orlop_testkit::skip_unless!(machine::can_run_pods());
    let dir = tempfile::tempdir().expect("make a directory");
    let seen = dir.path().join("seen");
    let runtime = dir.path().join("runtime");
    let runc = machine::program("runc").or_else(|_| machine::program("crun"));
    let text = format!(
        "#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/environ >> {}\nexec {} \"$@\"\n",
        seen.display(),
        runc.expect("a runtime").display()
    );
    fs::write(&runtime, text).expect("write");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("set the mode");
    // The daemon's own environment may be anything; a missing library is no harm to it.
    let node = Node::orlop()
        .runtime(&runtime.to_string_lossy())
        .env("LD_LIBRARY_PATH", "/nowhere")
        .env("DAEMON_TOKEN", SECRET);
    let world = world!(node);
    let spec = world
        .container("main")
        .shell("sleep 600")
        .env("LD_PRELOAD", "/tmp/evil.so")
        .env("LD_LIBRARY_PATH", "/tmp")
        .env("BASH_ENV", "/tmp/evil.sh");
    let running = world.run_container("helpers", &spec).await;
    let env = world.cri.exec(&running.id, &["env"]).await.expect("exec");
    let env = String::from_utf8_lossy(&env.stdout).into_owned();
    assert!(
        env.contains("LD_LIBRARY_PATH=/tmp\n") && !env.contains(SECRET),
        "{env}"
    );
    world.cri.remove(&running.id).await.expect("remove");
    let seen = fs::read_to_string(&seen).expect("the runtime was called");
    let names: std::collections::BTreeSet<&str> = seen
        .lines()
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    for name in &names {
        let harmless = ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name);
        assert!(harmless, "a runtime was run with {name}: {names:?}");
    }
    world.finish().await;
}

/// Files that every user can come to, by the modes on the way.
fn readable_by_all(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(mode) = fs::metadata(&dir).map(|found| found.mode()) else {
            continue;
        };
        // Without the right to pass, nothing below can be reached.
        if mode & 0o001 == 0 {
            continue;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file()
                && entry
                    .metadata()
                    .is_ok_and(|found| found.mode() & 0o004 != 0)
            {
                found.push(entry.path());
            }
        }
    }
    found
}

fn memchr_find(content: &[u8], word: &[u8]) -> bool {
    content.windows(word.len()).any(|part| part == word)
}
