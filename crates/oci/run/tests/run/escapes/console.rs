//! Terminals, and what a container makes of the places where they are.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use orlop_testkit::skip_unless;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};

use crate::rig::{Rig, Said, USERS, also, ended, mount, rig, volume, with_users, without, works};

/// Creates a container with a terminal; the mounts that it sees, or why it cannot be.
fn mounts_with_terminal(rig: &Rig, config: &Value) -> Result<Vec<String>, Said> {
    let mut config = config.clone();
    config["process"]["terminal"] = true.into();
    let (id, bundle) = rig.bundle(&config);
    let (held, socket) = accepting(&bundle);
    let mut create = rig.command();
    create
        .args(["create", "--bundle"])
        .arg(&bundle)
        .arg("--console-socket")
        .arg(socket);
    create.arg("--pid-file").arg(bundle.join("pid")).arg(&id);
    let said = ended(&mut create);
    // Wakes who waits for a terminal that does not come.
    let _ = UnixStream::connect(bundle.join("s"));
    let terminal = held.join().unwrap();
    if !said.ok {
        return Err(said);
    }
    let pid = fs::read_to_string(bundle.join("pid")).unwrap();
    let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    drop(terminal);
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(places.map(str::to_owned).collect())
}

/// Takes one connection, and keeps what it holds unread.
fn accepting(bundle: &std::path::Path) -> (std::thread::JoinHandle<UnixStream>, PathBuf) {
    let socket = bundle.join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    (
        std::thread::spawn(move || listener.accept().unwrap().0),
        socket,
    )
}

fn lie_in_proc(places: &[String]) -> bool {
    let meant = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/bus",
        "/proc/fs",
        "/proc/irq",
        "/proc/sys",
        "/proc/sysrq-trigger",
    ];
    places
        .iter()
        .any(|place| place.starts_with("/proc/") && !meant.contains(&place.as_str()))
}

#[test]
fn a_terminal_is_made_and_is_the_console() {
    let rig = rig!();
    let places = mounts_with_terminal(&rig, &rig.config(&["true"])).unwrap();
    assert!(
        places.iter().any(|place| place == "/dev/console"),
        "{places:?}"
    );
    assert!(!lie_in_proc(&places), "{places:?}");
}

/// CVE-2025-52565 and CVE-2025-52881: `/dev/console` is a link of a volume's, by which the terminal comes to lie
/// over a file by which the kernel is told the container's label.
#[test]
fn a_console_that_is_a_link_does_not_lead_into_proc() {
    let rig = rig!();
    let dev = rig.outside("dev");
    fs::create_dir(dev.join("pts")).unwrap();
    let link = dev.join("console");
    for target in [
        "/proc/self/attr/exec",
        "../proc/self/oom_score_adj",
        "/proc/sys/kernel/core_pattern",
    ] {
        let _ = fs::remove_file(&link);
        symlink(target, &link).unwrap();
        let mut config = rig.config(&["true"]);
        without(&mut config, "/dev");
        without(&mut config, "/dev/pts");
        also(&mut config, volume(&dev, "/dev"));
        also(
            &mut config,
            mount("/dev/pts", "devpts", &["newinstance", "ptmxmode=0666"]),
        );
        config["linux"]["readonlyPaths"] = json!([]);
        if let Ok(places) = mounts_with_terminal(&rig, &config) {
            assert!(!lie_in_proc(&places), "{target}: {places:?}");
        }
    }
}

/// CVE-2025-52565: what is opened as a terminal is something else, put there by a volume.
#[test]
fn what_is_no_terminal_of_the_kernels_is_not_taken_for_one() {
    let rig = rig!();
    let secret = rig.outside("outside").join("secret");
    fs::write(&secret, "of the host").unwrap();
    let kinds = [
        "a file",
        "a link",
        "a link to terminals elsewhere",
        "a node of terminals below",
        "nothing",
    ];
    for kind in kinds {
        let pts = rig.outside(kind);
        let ptmx = pts.join("ptmx");
        let mut config = rig.config(&["true"]);
        without(&mut config, "/dev/pts");
        also(&mut config, volume(&pts, "/dev/pts"));
        let terminals = |at: &str| mount(at, "devpts", &["newinstance", "ptmxmode=0666"]);
        match kind {
            "a file" => fs::write(ptmx, "").unwrap(),
            "a link" => symlink(&secret, ptmx).unwrap(),
            "a link to terminals elsewhere" => {
                symlink("/elsewhere/ptmx", ptmx).unwrap();
                also(&mut config, terminals("/elsewhere"));
            }
            // The kernel looks for `pts` beside it.
            "a node of terminals below" => {
                let mode = Mode::from_raw_mode(0o666);
                mknodat(CWD, ptmx, FileType::CharacterDevice, mode, makedev(5, 2)).unwrap();
                also(&mut config, terminals("/dev/pts/pts"));
            }
            _ => {}
        }
        let made = mounts_with_terminal(&rig, &config);
        assert!(made.is_err(), "{kind}: {made:?}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "of the host");
}

/// The same by a device: in user namespaces they are mounted, on what the image has of their names.
#[test]
fn devices_that_are_links_do_not_lead_into_proc() {
    let rig = rig!();
    let dev = rig.root.join("dev");
    chown(&dev, Some(USERS), Some(USERS)).unwrap();
    symlink("/proc/self/attr/exec", dev.join("null")).unwrap();
    symlink("../proc/self/oom_score_adj", dev.join("zero")).unwrap();
    let mut config = rig.config(&["sleep", "60"]);
    for place in ["/dev", "/dev/pts"] {
        without(&mut config, place);
    }
    with_users(&mut config);
    if let Ok(container) = rig.create(&config) {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", container.pid)).unwrap();
        let places = table.lines().filter_map(|line| line.split(' ').nth(4));
        let places: Vec<_> = places.map(str::to_owned).collect();
        assert!(!lie_in_proc(&places), "{places:?}");
    }
}

/// CVE-2026-41579 and CVE-2026-47766: a `/dev` that is a link has the runtime make, remove and link files where it leads.
#[test]
fn a_dev_that_is_a_link_changes_nothing_outside_of_the_root() {
    skip_unless!(works());
    for kind in ["absolute", "relative", "magic"] {
        let rig = Rig::new();
        // Its name does not begin with the link's, which would be one in a circle.
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let outside = outside.path();
        fs::write(outside.join("ptmx"), "of the host").unwrap();
        let path = outside.to_str().unwrap();
        let target = match kind {
            "absolute" => path.to_owned(),
            "relative" => "../".repeat(24) + path,
            _ => format!("/proc/self/root{path}"),
        };
        fs::remove_dir(rig.root.join("dev")).unwrap();
        symlink(target, rig.root.join("dev")).unwrap();
        let mut config = rig.config(&["true"]);
        for place in ["/dev", "/dev/pts"] {
            without(&mut config, place);
        }
        // To refuse such an image is right, too.
        let said = rig.run(&config);
        let names = fs::read_dir(outside).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["ptmx"], "{kind}: {said:?}");
        let ptmx = outside.join("ptmx");
        assert!(!ptmx.is_symlink(), "{kind}: {said:?}");
        assert_eq!(
            fs::read_to_string(ptmx).unwrap(),
            "of the host",
            "{kind}: {said:?}"
        );
    }
}
