//! What a server costs while nobody reads, and after much was read.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use orlop_lazy::PART;

use crate::support::{Daemon, LIMIT, until};

/// The most memory of a server that has served, in kB.
const MEMORY_MOST: u64 = 6000;

fn status(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How many times threads of the process went to sleep or were woken.
fn switches(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .map(|thread| {
            let tid = thread.unwrap().file_name().into_string().unwrap();
            status(tid.parse().unwrap(), "voluntary_ctxt_switches:")
        })
        .sum()
}

#[test]
fn twenty_large_layers_take_little_memory_and_no_time() {
    let node = node!();
    let size = 1 << 30;
    let layers: Vec<_> = (0..20)
        .map(|number| node.layer(&format!("layer-{number}"), size, LIMIT))
        .collect();
    let pid = node.server().pid();
    let fresh = status(pid, "VmRSS:");
    let all: Vec<_> = layers.iter().collect();
    let daemon = Daemon::of(node.server(), &all);
    let mut room = vec![0; 1 << 20];
    for layer in &layers {
        layer.parts.mark(1 << 29..1 << 30).unwrap();
        let file = layer.open();
        for at in [0, size / 4, size / 2, size - (1 << 20)] {
            file.read_exact_at(&mut room, at).unwrap();
        }
    }
    // Many wait at once.
    let waiters: Vec<_> = (0..200)
        .map(|number| {
            let file = layers[number % 20].open();
            std::thread::spawn(move || {
                let mut byte = [0];
                file.read_exact_at(&mut byte, (number as u64 + 1000) * PART)
                    .unwrap();
            })
        })
        .collect();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    let served = status(pid, "VmRSS:");
    eprintln!("{fresh} kB with twenty layers, {served} kB after they were read");
    assert!(served < MEMORY_MOST, "{served} kB");

    daemon.end();
    until("it has come to rest", || {
        let before = switches(pid);
        std::thread::sleep(Duration::from_millis(300));
        switches(pid) == before
    });
    let before = switches(pid);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(switches(pid), before, "it was woken");
}
