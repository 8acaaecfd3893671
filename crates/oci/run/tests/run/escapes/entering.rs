//! Who enters a container finds there what its processes have put in the way.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use orlop_testkit::machine;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::rig::rig;

/// `/etc/passwd` is read by who enters, with the node's rights still.
#[test]
fn users_of_a_container_that_are_no_file_hold_nobody_up() {
    let rig = rig!();
    let secret = rig.outside("outside").join("passwd");
    fs::write(&secret, "root:x:0:0::/of-the-host:/bin/sh\n").unwrap();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let passwd = rig.root.join("etc/passwd");
    for kind in [
        "a fifo",
        "a link",
        "a loop",
        "without end",
        "the input",
        "a line without end",
    ] {
        let _ = fs::remove_file(&passwd);
        match kind {
            "a fifo" => {
                mknodat(CWD, &passwd, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
            }
            "a link" => symlink(&secret, &passwd).unwrap(),
            "a loop" => symlink("passwd", &passwd).unwrap(),
            "without end" => File::create(&passwd).unwrap().set_len(1 << 40).unwrap(),
            "the input" => symlink("/proc/self/fd/0", &passwd).unwrap(),
            _ => fs::write(&passwd, format!("root:x:0:0::/{}", "x".repeat(3 << 20))).unwrap(),
        }
        let start = Instant::now();
        let (input, mut given) = std::io::pipe().unwrap();
        given.write_all(b"root:x:0:0::/given:\n").unwrap();
        drop(given);
        let look = ["sh", "-c", "echo HOME is $HOME.; cat"];
        let said = container.exec_with(input.into(), &[], &look);
        // What it is given is not read away either.
        let all = "HOME is /.\nroot:x:0:0::/given:\n";
        assert!(said.ok && said.out == all, "{kind}: {said:?}");
        let took = start.elapsed();
        assert!(
            took < Duration::from_secs(5) * machine::patience(),
            "{kind}: {took:?}"
        );
    }
}

/// Nothing that a container does to its own `/proc` or `/dev` reaches who enters it.
#[test]
fn a_container_that_hides_its_own_proc_can_be_entered() {
    let rig = rig!();
    let mut config = rig.config(&[
        "sh",
        "-c",
        "busybox umount -l /proc; rm -f /dev/null /dev/pts/ptmx; sleep 60",
    ]);
    symlink("busybox", rig.root.join("bin/rm")).unwrap();
    // This is written to a file of `/proc`.
    config["process"]["oomScoreAdj"] = 100.into();
    let rights = config["process"]["capabilities"]["bounding"]
        .as_array_mut()
        .unwrap();
    rights.push("CAP_SYS_ADMIN".into());
    let all = rights.clone();
    for of in ["bounding", "effective", "permitted"] {
        config["process"]["capabilities"][of] = all.clone().into();
    }
    let container = rig.start(&config);
    let is_gone = || {
        let table =
            fs::read_to_string(format!("/proc/{}/mountinfo", container.pid)).unwrap_or_default();
        !table.contains(" /proc ")
    };
    let deadline = Instant::now() + Duration::from_secs(10) * machine::patience();
    while !is_gone() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_gone(), "the container could not hide it");
    let said = container.exec(&[], &["sh", "-c", "echo entered; ls /proc"]);
    assert!(said.ok && said.out == "entered\n", "{said:?}");
}

/// CVE-2026-30892: a user without a group was taken for root.
#[test]
fn a_command_of_a_user_without_a_group_is_not_roots() {
    let rig = rig!();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    for (user, uid, gid) in [("1000", 1000, 0), ("1000:7", 1000, 7)] {
        let said = container.exec(&["--user", user], &["grep", "^[UG]id", "/proc/self/status"]);
        let ids = |id: u32| format!("id:\t{id}\t{id}\t{id}\t{id}\n");
        assert_eq!(
            said.out,
            format!("U{}G{}", ids(uid), ids(gid)),
            "{user}: {said:?}"
        );
    }
    for user in ["root", "-1", "4294967296", "1000:"] {
        let said = container.exec(&["--user", user], &["true"]);
        assert!(!said.ok, "{user:?}");
    }
}
