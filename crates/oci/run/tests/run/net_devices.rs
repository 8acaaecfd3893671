//! Network devices that become a container's, in a network namespace of the test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use orlop_testkit::machine;
use orlop_testkit::process::Killed;
use serde_json::{Value, json};

use crate::rig::{self, Rig, Said, ended};

/// A network namespace that lives as long as this.
struct Net(Killed);

impl Net {
    fn new() -> Self {
        let held = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let net = Self(Killed(held));
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(net.path()).is_ok_and(|it| it == own) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        net
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.0.id())
    }

    fn try_ip(&self, words: &str) -> Said {
        let net = format!("--net={}", self.path());
        ended(
            Command::new("nsenter")
                .args([&net, "ip"])
                .args(words.split(' ')),
        )
    }

    fn ip(&self, words: &str) -> String {
        let said = self.try_ip(words);
        assert!(said.ok, "ip {words}: {said:?}");
        said.out
    }

    /// A device with all that is kept, and an address that is not.
    fn device(&self, name: &str) {
        self.ip(&format!(
            "link add {name} mtu 1400 type veth peer name other"
        ));
        self.ip(&format!("link set {name} address 02:00:00:00:00:07 up"));
        self.ip("link set other up");
        self.ip(&format!(
            "addr add 192.0.2.7/24 broadcast 192.0.2.255 dev {name}"
        ));
        self.ip(&format!(
            "addr add 198.51.100.1 peer 198.51.100.2/32 dev {name}"
        ));
        self.ip(&format!("addr add 203.0.113.1/32 scope link dev {name}"));
        self.ip(&format!("addr add 2001:db8::7/64 nodad dev {name}"));
    }
}

/// A runtime whose namespace is `home`; none where this machine cannot.
fn rig(home: &Net) -> Rig {
    let mut rig = Rig::new();
    let script = rig.outside("bin").join("runtime");
    let runtime = rig.runtime.display();
    let text = format!(
        "#!/bin/sh\nexec nsenter --net={} {runtime} \"$@\"\n",
        home.path()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    rig.runtime = script;
    rig
}

fn works() -> Result<(), String> {
    let programs = ["ip", "unshare", "nsenter"];
    rig::works()?;
    programs.into_iter().try_for_each(machine::has_program)
}

fn moving(rig: &Rig, args: &[&str], devices: Value) -> Value {
    let mut config = rig.config(args);
    config["linux"]["netDevices"] = devices;
    config
}

fn joining(config: &mut Value, path: &str) {
    let network = json!({ "type": "network", "path": path });
    config["linux"]["namespaces"][1] = network;
}

const SHOW: &[&str] = &["busybox", "ip", "addr", "show"];

#[test]
fn a_device_goes_along_with_what_is_its() {
    orlop_testkit::skip_unless!(works());
    let home = Net::new();
    let rig = rig(&home);
    home.device("eth7");
    let mut config = moving(
        &rig,
        &["sleep", "600"],
        json!({ "eth7": { "name": "net0" } }),
    );
    config["linux"]["sysctl"] = json!({ "net.ipv4.conf.net0.rp_filter": "2" });
    let container = rig.start(&config);
    let shown = container.exec(&[], SHOW);
    for kept in [
        "net0@",
        ",UP",
        "mtu 1400",
        "02:00:00:00:00:07",
        "inet 192.0.2.7/24 brd 192.0.2.255 scope global net0",
        "inet 198.51.100.1 peer 198.51.100.2/32",
        "inet6 2001:db8::7/64 scope global",
    ] {
        assert!(shown.out.contains(kept), "{kept}: {shown:?}");
    }
    assert!(!shown.out.contains("203.0.113.1"), "{shown:?}");
    let filter = container.exec(&[], &["cat", "/proc/sys/net/ipv4/conf/net0/rp_filter"]);
    assert_eq!(filter.out, "2\n", "{filter:?}");
    assert!(!home.try_ip("link show dev eth7").ok);
    container.delete();
    // With its namespace, as the kernel has it of what it made itself.
    orlop_testkit::block_until!(
        std::time::Duration::from_secs(20),
        !home.try_ip("link show dev other").ok,
        "the other end is still there"
    );
}

#[test]
fn a_device_goes_to_users_of_their_own() {
    orlop_testkit::skip_unless!(works());
    let home = Net::new();
    let rig = rig(&home);
    home.device("eth7");
    let mut config = moving(&rig, SHOW, json!({ "eth7": {} }));
    let ids = json!([{ "containerID": 0, "hostID": 100_000, "size": 1000 }]);
    config["linux"]["uidMappings"] = ids.clone();
    config["linux"]["gidMappings"] = ids;
    let spaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    spaces.push(json!({ "type": "user" }));
    // Others' users may not reach what is in here.
    for dir in [rig.root.as_path(), rig.root.parent().unwrap()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let shown = rig.run(&config);
    assert!(shown.out.contains("inet 192.0.2.7/24"), "{shown:?}");
}

#[test]
fn a_device_stays_in_a_namespace_that_stays() {
    orlop_testkit::skip_unless!(works());
    let (home, there) = (Net::new(), Net::new());
    let rig = rig(&home);
    home.device("eth7");
    let mut config = moving(&rig, SHOW, json!({ "eth7": {} }));
    joining(&mut config, &there.path());
    let shown = rig.run(&config);
    assert!(shown.out.contains("inet 192.0.2.7/24"), "{shown:?}");
    assert!(there.ip("addr show dev eth7").contains("inet 192.0.2.7/24"));
    assert!(!home.try_ip("link show dev eth7").ok);
}

#[test]
fn a_template_is_given_a_number_by_the_kernel() {
    orlop_testkit::skip_unless!(works());
    let (home, there) = (Net::new(), Net::new());
    let rig = rig(&home);
    home.device("eth7");
    // Both the name and the index are taken over there.
    there.ip("link add net0 type veth peer name more");
    let mut config = moving(&rig, SHOW, json!({ "eth7": { "name": "net%d" } }));
    joining(&mut config, &there.path());
    let shown = rig.run(&config);
    assert!(shown.out.contains("scope global net1"), "{shown:?}");
    assert!(shown.out.contains("inet6 2001:db8::7/64"), "{shown:?}");
}

/// Nothing is moved, or it is back as it was.
fn refused(home: &Net, rig: &Rig, config: &Value, why: &str) {
    let before = home.ip("-oneline addr show dev eth7");
    let said = rig.run(config);
    assert!(!said.ok && said.err.contains(why), "{why}: {said:?}");
    assert_eq!(said.err.lines().count(), 1, "{said:?}");
    let now = home.ip("-oneline addr show dev eth7");
    // The one of link scope and what the kernel gives each device by itself do not travel.
    let global = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("scope global"));
        let mut lines: Vec<_> = lines
            .map(|line| line.split_once("inet").unwrap().1.to_owned())
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(global(&before), global(&now), "{why}");
    assert!(home.ip("link show dev eth7").contains(",UP"), "{why}");
}

#[test]
fn devices_are_back_where_the_container_cannot_be_made() {
    orlop_testkit::skip_unless!(works());
    let (home, there) = (Net::new(), Net::new());
    let rig = rig(&home);
    home.device("eth7");
    let config = moving(
        &rig,
        &["no-such-program"],
        json!({ "eth7": { "name": "net0" } }),
    );
    refused(&home, &rig, &config, "exec: \\\"no-such-program\\\"");

    let two = json!({ "eth7": { "name": "net0" }, "none": {} });
    let why = "linux.netDevices[\\\"none\\\"]: link not found on runtime namespace: no such device";
    refused(&home, &rig, &moving(&rig, SHOW, two), why);

    there.ip("link add net0 type veth peer name more");
    let mut config = moving(&rig, SHOW, json!({ "eth7": { "name": "net0" } }));
    joining(&mut config, &there.path());
    let why = "linux.netDevices[\\\"eth7\\\"]: fail to move the device to the container's network namespace as \\\"net0\\\": file exists";
    refused(&home, &rig, &config, why);
}

#[test]
fn what_cannot_be_moved_is_refused() {
    orlop_testkit::skip_unless!(works());
    let home = Net::new();
    let rig = rig(&home);
    home.device("eth7");
    for (devices, why) in [
        (
            json!({ "a/b": {} }),
            "linux.netDevices[\\\"a/b\\\"]: invalid network device name",
        ),
        (
            json!({ "eth7": { "name": "sixteen--letters" } }),
            "linux.netDevices[\\\"eth7\\\"].name: invalid network device name",
        ),
        (
            json!({ "lo": {} }),
            "linux.netDevices[\\\"lo\\\"]: fail to move the device",
        ),
    ] {
        refused(&home, &rig, &moving(&rig, SHOW, devices), why);
    }
    let mut config = moving(&rig, SHOW, json!({ "eth7": {} }));
    joining(&mut config, &home.path());
    refused(
        &home,
        &rig,
        &config,
        "linux.netDevices: the container uses the runtime's network namespace",
    );
    config["linux"]["namespaces"]
        .as_array_mut()
        .unwrap()
        .remove(1);
    refused(
        &home,
        &rig,
        &config,
        "linux.netDevices: unable to move network devices without a private NET namespace",
    );
}

#[test]
fn features_tell_of_network_devices() {
    let program = env!("CARGO_BIN_EXE_orlop-run");
    let told = Command::new(program).arg("features").output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["linux"]["netDevices"]["enabled"], true);
}
