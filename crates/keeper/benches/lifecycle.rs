//! What a keeper costs: time to be ready, time of a container's life through it against the bare
//! runtime, memory. `ORLOP_KEEPER` names another program than the one just built, such as the
//! static one; `ROUNDS` how often everything is done.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/keeper/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_launch::{ExecIo, KeeperEvent};
use support::Pod;

fn main() {
    let rounds = std::env::var("ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure(rounds));
}

async fn measure(rounds: usize) {
    let program = std::env::var("ORLOP_KEEPER").ok();
    let new_pod = async || {
        Pod::with(|_, spec| {
            if let Some(program) = &program {
                spec.program = program.into();
            }
        })
        .await
    };
    let mut spawn = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let pod = new_pod().await;
        spawn.push(begin.elapsed());
        drop(pod);
    }
    report("keeper: spawn to ready, three namespaces", spawn);

    let mut pod = new_pod().await;
    memory("keeper alone", pod.keeper_pid);
    let (mut through, mut list) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let id = format!("c{round}");
        let mut wish = pod.script(&id, "");
        wish.config["process"]["args"] = serde_json::json!(["/bin/true"]);
        Pod::write_bundle(&wish);
        let begin = Instant::now();
        pod.keeper
            .create(&pod.runtime, &wish.create, support::LIMIT)
            .await
            .unwrap();
        pod.start(&id).await.unwrap();
        while !matches!(pod.event().await, KeeperEvent::Exited(_)) {}
        through.push(begin.elapsed());
        let begin = Instant::now();
        pod.keeper.list().await.unwrap();
        list.push(begin.elapsed());
        pod.delete(&id).await;
        orlop_disk::remove_tree(&pod.bundle(&id)).unwrap();
    }
    report("keeper: create, start, exit of `true`", through);
    report("keeper: list", list);

    let mut bare = Vec::new();
    for round in 0..rounds {
        let id = format!("b{round}");
        let mut wish = pod.script(&id, "");
        wish.config["process"]["args"] = serde_json::json!(["/bin/true"]);
        Pod::write_bundle(&wish);
        let runc = |args: &[&str]| {
            let mut command = Command::new("runc");
            command.arg("--root").arg(&pod.runtime.root).args(args);
            let null = std::process::Stdio::null;
            command.stdin(null()).stdout(null()).stderr(null());
            assert!(command.status().unwrap().success());
        };
        let bundle = pod.bundle(&id);
        let begin = Instant::now();
        runc(&["create", "--bundle", &bundle.to_string_lossy(), &id]);
        runc(&["start", &id]);
        bare.push(begin.elapsed());
        runc(&["delete", "--force", &id]);
        orlop_disk::remove_tree(&bundle).unwrap();
    }
    report("bare runtime: create, start (exit not awaited)", bare);

    pod.run_script("long", "sleep 1000").await;
    let mut exec = Vec::new();
    for round in 0..rounds {
        let (id, null) = (format!("e{round}"), || {
            fs::File::options().read(true).write(true).open("/dev/null")
        });
        let io = ExecIo::Streams {
            stdin: null().unwrap().into(),
            stdout: null().unwrap().into(),
            stderr: null().unwrap().into(),
        };
        let begin = Instant::now();
        pod.exec(&id, "long", &["true"], io).await.unwrap();
        pod.exec_exit_of(&id).await;
        exec.push(begin.elapsed());
        pod.keeper.forget_exec(&id).await.unwrap();
    }
    report("keeper: exec of `true` to its exit", exec);
    let mut bare = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let mut runc = Command::new("runc");
        runc.arg("--root")
            .arg(&pod.runtime.root)
            .args(["exec", "long", "true"]);
        assert!(runc.status().unwrap().success());
        bare.push(begin.elapsed());
    }
    report("bare runtime: exec of `true`", bare);
    memory("keeper with a container, after all that", pod.keeper_pid);

    let bytes = 100_000_000;
    let cpu = cpu_millis(pod.keeper_pid);
    let begin = Instant::now();
    pod.run_script("loud", &format!("head -c {bytes} /dev/zero"))
        .await;
    pod.exit_of("loud").await;
    let rate = bytes / 1_000_000 * 1_000 / begin.elapsed().as_millis() as usize;
    let cpu = cpu_millis(pod.keeper_pid) - cpu;
    println!(
        "{:<50} {rate} MB/s, {cpu} ms of CPU for {bytes} bytes",
        "log: one container writing"
    );
    memory("keeper after a loud container", pod.keeper_pid);
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "{what:<50} p10 {:.2} ms, p50 {:.2} ms, p90 {:.2} ms",
        at(10),
        at(50),
        at(90)
    );
}

/// The time that a process has spent on a CPU; the kernel counts in 10 ms.
fn cpu_millis(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(") ").next().unwrap().split(' ');
    fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap() * 10)
        .sum()
}

fn memory(what: &str, pid: u32) {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let of = |name: &str| {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    println!(
        "{what:<50} rss {} kB, pss {} kB, private dirty {} kB",
        of("Rss:"),
        of("Pss:"),
        of("Private_Dirty:")
    );
}
