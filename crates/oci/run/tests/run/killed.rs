//! `kill -9` of `create` at any moment: `delete --force` takes back all that was made.
//!
//! `ORLOP_RUN_KILLS` says how often (100), `ORLOP_RUN_SEED` at which moments.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use orlop_testkit::leaks::{self, Leak};
use orlop_testkit::machine;
use serde_json::{Value, json};

use crate::rig::{Rig, ended, rig};

#[test]
fn nothing_is_left_of_a_create_that_is_killed() {
    let rig = rig!();
    let mut config = rig.config(&["sleep", "600"]);
    config["linux"]["resources"]["pids"] = json!({ "limit": 100 });
    config["linux"]["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_ERRNO" }],
    });
    config["hooks"] = json!({ "createRuntime": [{ "path": "/bin/true" }] });
    killed_at_any_moment(&rig, &config);
}

#[test]
fn nothing_is_left_of_a_create_with_users_that_is_killed() {
    let rig = rig!();
    let mut config = rig.config(&["sleep", "600"]);
    let ids = json!([{ "containerID": 0, "hostID": 0, "size": 1000 }]);
    config["linux"]["uidMappings"] = ids.clone();
    config["linux"]["gidMappings"] = ids;
    let spaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    spaces.push(json!({ "type": "user" }));
    // With one that exists there is a process between.
    spaces[2] = json!({ "type": "ipc", "path": "/proc/self/ns/ipc" });
    killed_at_any_moment(&rig, &config);
}

/// The container's process waits for its hook then, and hears nothing of its parent's end.
#[test]
fn nothing_is_left_of_a_create_that_is_killed_while_a_hook_hangs() {
    let rig = rig!();
    for processes in ["own", "shared"] {
        let begun = rig.outside("hook").join(processes);
        let hangs = format!("echo >'{}'; sleep 600", begun.display());
        let mut config = rig.config(&["true"]);
        config["hooks"] = json!({
            "createContainer": [{ "path": "/bin/sh", "args": ["sh", "-c", hangs] }],
        });
        if processes == "shared" {
            let spaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            spaces.retain(|space| space["type"] != "pid");
        }
        let (id, bundle) = rig.bundle(&config);
        let mut create = rig.command();
        create.args(["create", "--bundle"]).arg(bundle).arg(&id);
        // The hook lives on, and would hold what a test is read by.
        create.stdin(Stdio::null()).stdout(Stdio::null());
        let mut create = create.stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(10) * machine::patience();
        while !begun.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = create.kill();
        create.wait().unwrap();
        assert!(begun.exists(), "the hook did not begin");
        let said = ended(rig.command().args(["delete", "--force", &id]));
        let left = left_of(&id);
        assert!(said.ok && left.is_empty(), "{processes}: {said:?} {left:?}");
    }
}

fn killed_at_any_moment(rig: &Rig, config: &Value) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|it| it.parse::<u64>().ok())
    };
    let kills = number("ORLOP_RUN_KILLS").unwrap_or(100);
    let mut chance = number("ORLOP_RUN_SEED").unwrap_or(20) | 1;
    // One that is left alone says how long it takes, the fastest of some: others are at work meanwhile.
    let alone = (0..4).map(|_| {
        let begun = Instant::now();
        drop(rig.create(config).map_err(|said| panic!("{said:?}")));
        begun.elapsed()
    });
    let whole = alone.min().unwrap() * 5 / 4;
    let (mut before_the_end, mut wrong) = (0, Vec::new());
    for kill in 0..kills {
        // Xorshift, within the step that is this one's.
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let step = whole.as_micros() as u64 * 100 / kills;
        let moment = Duration::from_micros((step * kill + chance % step.max(1)) / 100);
        let (id, bundle) = rig.bundle(config);
        let mut create = rig.command();
        create.args(["create", "--bundle"]).arg(&bundle).arg(&id);
        create
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut create = create.spawn().unwrap();
        std::thread::sleep(moment);
        before_the_end += u32::from(create.try_wait().unwrap().is_none());
        let _ = create.kill();
        create.wait().unwrap();
        let delete = ["delete", "--force", &id].map(OsStr::new);
        let said = ended(rig.command().args(delete));
        let told = format!("killed after {moment:?} of {whole:?} as number {kill}");
        if !said.ok {
            wrong.push(format!("{told}: {said:?}"));
        }
        let state = rig.outside("state").join(&id);
        let left = left_of(&id);
        if state.exists() || !left.is_empty() {
            wrong.push(format!("{told}: left {left:?} {}", state.exists()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        u64::from(before_the_end) > kills / 3,
        "{before_the_end} of {kills} came too late"
    );
}

/// What is still there; a process that was killed is given the time to end, all else must be gone.
fn left_of(id: &str) -> Vec<Leak> {
    let begun = Instant::now();
    loop {
        let left: Vec<Leak> = leaks::find(id, &[]).into_iter().collect();
        let dies = !left.is_empty() && left.iter().all(|it| matches!(it, Leak::Process(..)));
        if !dies || begun.elapsed() > Duration::from_secs(5) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
