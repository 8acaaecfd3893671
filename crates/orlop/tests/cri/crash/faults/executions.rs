//! Programs of the administrator's that cannot be executed once: CNI plugins, hooks, a credential
//! helper.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use orlop_testkit::{Chance, Node, NodeBuilder, Registry, machine, skip_unless};
use serde_json::json;
use tempfile::TempDir;

use super::super::number;
use super::tracer::Tracer;
use super::{Campaign, try_some};
use crate::world::world;

/// How many faults are tried out if nobody says: one of each program in each step.
const USUAL: u64 = 8;

/// When hooks are executed.
const STAGES: [&str; 3] = ["createRuntime", "poststart", "poststop"];

#[tokio::test]
async fn a_plugin_hook_or_helper_that_cannot_be_executed_once_costs_a_call_and_leaves_nothing() {
    skip_unless!(Tracer::can_trace());
    skip_unless!(machine::has_program("host-local"));
    let programs = Programs::new();
    let mut world = world!(programs.node());
    world.registry = Registry::start_with_login();
    let login = world.registry.login().expect("it asks for one");
    programs.answer(&login.user, &login.password);
    let mut campaign = Campaign::begin(world).await;
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let (faults, executed) = campaign.executions(&programs.paths(), &mut chance).await;
    assert_eq!(executed, programs.paths(), "all of them are executed");
    try_some(faults, USUAL, async |fault| campaign.try_out(fault).await).await;
    campaign.end().await;
}

/// What an administrator has laid down.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        let programs = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(programs.hooks()).expect("make a directory");
        for stage in STAGES {
            let hook = programs.hook(stage);
            write_script(&hook, "cat > /dev/null");
            let definition = json!({
                "version": "1.0.0",
                "hook": { "path": hook },
                "when": { "always": true },
                "stages": [stage],
            });
            let file = programs.hooks().join(format!("{stage}.json"));
            fs::write(file, definition.to_string()).expect("write a definition");
        }
        let asks = json!({ "credsStore": "orlop-test" });
        fs::write(programs.credentials(), asks.to_string()).expect("write the credentials");
        programs.answer("nobody", "");
        programs
    }

    /// What the helper answers from now on.
    fn answer(&self, user: &str, password: &str) {
        let answer = json!({ "ServerURL": "", "Username": user, "Secret": password });
        write_script(&self.helper(), &format!("cat > /dev/null; echo '{answer}'"));
    }

    fn node(&self) -> NodeBuilder {
        let config = format!(
            "[network]\nin_process = \"never\"\n[hooks]\ndirs = [{:?}]\n[images]\ncredentials = [{:?}]",
            self.hooks(),
            self.credentials()
        );
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.0.path().display());
        Node::orlop().drop_in(&config).env("PATH", &path)
    }

    /// All of them, in order.
    fn paths(&self) -> Vec<String> {
        let plugins = ["bridge", "host-local"].map(|name| Path::new("/usr/lib/cni").join(name));
        let hooks = STAGES.map(|stage| self.hook(stage));
        let all = plugins.into_iter().chain(hooks).chain([self.helper()]);
        let mut all: Vec<_> = all
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    }

    fn hooks(&self) -> PathBuf {
        self.0.path().join("hooks.d")
    }

    fn hook(&self, stage: &str) -> PathBuf {
        self.0.path().join(format!("hook-{stage}"))
    }

    fn credentials(&self) -> PathBuf {
        self.0.path().join("config.json")
    }

    fn helper(&self) -> PathBuf {
        self.0.path().join("docker-credential-orlop-test")
    }
}

fn write_script(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("write a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("make it executable");
}
