//! Ports of a bridge that are none of ours.

use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

/// Gives a bridge so many ports, whose far ends are elsewhere and hear what is sent to all. They
/// go with the process.
pub(crate) fn ports(bridge: &str, count: usize) -> Child {
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--net", "sh", "-c"]);
    let quiet = "sysctl -qw net.ipv6.conf.default.disable_ipv6=1; exec sleep 600";
    let elsewhere = elsewhere.arg(quiet).spawn().expect("run unshare(1)");
    std::thread::sleep(Duration::from_secs(1));
    let there = elsewhere.id();
    let (mut here, mut far) = (String::new(), String::new());
    for n in 0..count {
        let peer = format!("type veth peer name fp{n} netns {there}");
        let _ = writeln!(
            here,
            "link add fo{n} {peer}\nlink set fo{n} master {bridge} up"
        );
        let _ = writeln!(far, "link set fp{n} up");
    }
    ip(Command::new("ip"), &here);
    let mut inside = Command::new("nsenter");
    inside.args(["--net", "--target", &there.to_string(), "ip"]);
    ip(inside, &far);
    // Their own chatter (duplicate address detection) is over.
    std::thread::sleep(Duration::from_secs(20));
    elsewhere
}

fn ip(mut program: Command, batch: &str) {
    let file = std::env::temp_dir().join(format!("orlop-bench-{}", std::process::id()));
    fs::write(&file, batch).expect("write");
    let status = program
        .arg("-batch")
        .arg(&file)
        .status()
        .expect("run ip(8)");
    let _ = fs::remove_file(&file);
    assert!(status.success(), "{status}");
}
