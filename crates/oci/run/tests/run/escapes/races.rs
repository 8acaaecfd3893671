//! Links that are swapped while the runtime mounts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::rig::{also, ended as ended_command, mount, rig, volume};

/// How many containers are tried; each gives tens of chances.
const TRIES: u32 = 60;

/// CVE-2021-30465 and CVE-2024-45310: two containers share a volume; one swaps a directory there for a link
/// while the other is mounted into it. What is mounted, and what is made for it, goes to the host then.
#[test]
fn links_swapped_under_a_mount_lead_nowhere_outside() {
    let rig = rig!();
    let outside = rig.outside("outside");
    fs::write(outside.join("secret"), "of the host").unwrap();
    // What is looked up twice is found there, too.
    fs::create_dir_all(outside.join("new/one")).unwrap();
    let shared = rig.outside("shared");
    let marker = rig.outside("marker");
    fs::write(marker.join("marked"), "of the volume").unwrap();
    fs::create_dir(shared.join("directory")).unwrap();
    let up = "../".repeat(24) + outside.to_str().unwrap().trim_start_matches('/');

    let ended = AtomicBool::new(false);
    let swaps = AtomicU32::new(0);
    let (mut made, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        for (name, target) in [
            ("absolute", outside.to_str().unwrap()),
            ("relative", up.as_str()),
        ] {
            symlink(target, shared.join(name)).unwrap();
            fs::create_dir(shared.join(format!("at_{name}"))).unwrap();
            scope.spawn({
                let (link, directory) = (shared.join(name), shared.join(format!("at_{name}")));
                let (ended, swaps) = (&ended, &swaps);
                move || {
                    while !ended.load(Ordering::Relaxed) {
                        swap(&link, &directory);
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        // The threads end though an assertion fails.
        let _end = Ended(&ended);
        for _ in 0..TRIES {
            let mut config = rig.config(&["cat", "/proc/self/mountinfo"]);
            also(&mut config, volume(&shared, "/shared"));
            also(&mut config, volume(&marker, "/shared/at_absolute"));
            also(&mut config, volume(&marker, "/shared/at_relative/new/one"));
            also(
                &mut config,
                mount("/shared/at_relative/tmp", "tmpfs", &["size=4k"]),
            );
            let said = rig.run(&config);
            if !said.ok {
                refused += 1;
                continue;
            }
            made += 1;
            let name = marker.file_name().unwrap().to_str().unwrap();
            let seen = said.out.lines().filter(|line| {
                line.split(' ')
                    .nth(3)
                    .is_some_and(|root| root.ends_with(name))
            });
            assert_eq!(seen.count(), 2, "a mount went astray: {said:?}");
        }
    });
    let mut left: Vec<_> = fs::read_dir(&outside)
        .unwrap()
        .chain(fs::read_dir(outside.join("new")).unwrap())
        .chain(fs::read_dir(outside.join("new/one")).unwrap())
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["new", "one", "secret"], "something was made outside");
    assert!(
        swaps.into_inner() > 1000 && made > 0,
        "{made} were made and {refused} refused"
    );
}

struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn swap(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// CVE-2024-21626 by a race: the working directory of who enters a container is swapped for a link to one of
/// the runtime's descriptors, whichever these are.
#[test]
fn a_working_directory_that_is_swapped_leads_nowhere_outside() {
    let rig = rig!();
    let outside = rig.outside("outside");
    fs::write(outside.join("marker"), "of the host").unwrap();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let (link, directory) = (rig.root.join("link"), rig.root.join("work"));
    fs::create_dir(&directory).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Ended(&ended);
        scope.spawn(|| {
            // Those that the caller left open are tried most often.
            for fd in (3..24).flat_map(|fd| [fd, 7, 9]).cycle() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                symlink(format!("/proc/self/fd/{fd}"), &link).unwrap();
                swap(&link, &directory);
                swap(&link, &directory);
                fs::remove_file(&link).unwrap();
            }
        });
        let mut entered = 0;
        for _ in 0..TRIES {
            let look = ["sh", "-c", "pwd; ls . .. ../../../../../../.."];
            let mut exec = Command::new("sh");
            exec.args(["-c", "exec 7<\"$0\" 9</ && exec \"$@\""])
                .arg(&outside);
            let runtime = rig.command();
            exec.arg(runtime.get_program()).args(runtime.get_args());
            let said = ended_command(
                exec.args(["exec", "--cwd", "/work", &container.id])
                    .args(look),
            );
            for name in ["marker", "boot", "home"] {
                assert!(
                    !said.out.split_whitespace().any(|word| word == name),
                    "{said:?}"
                );
            }
            entered += u32::from(said.ok);
        }
        assert!(entered > 0);
    });
}

/// CVE-2024-45310 without a race: what is missing is made in the root, wherever links lead.
#[test]
fn what_is_made_for_a_mount_is_made_in_the_root() {
    let rig = rig!();
    let outside = rig.outside("outside");
    let volume_of = rig.outside("volume");
    symlink(&outside, rig.root.join("absolute")).unwrap();
    symlink(
        "../".repeat(24) + outside.to_str().unwrap().trim_start_matches('/'),
        rig.root.join("relative"),
    )
    .unwrap();
    symlink("/proc/self/root/proc/1/root", rig.root.join("magic")).unwrap();
    symlink("/proc/self/cwd", rig.root.join("cwd")).unwrap();
    for destination in [
        "/absolute",
        "/relative",
        "/absolute/made",
        "/relative/made/deep",
        "/magic/made",
        "/cwd/made",
    ] {
        let mut config = rig.config(&["cat", "/proc/self/mountinfo"]);
        also(&mut config, volume(&volume_of, destination));
        let said = rig.run(&config);
        let name = volume_of.to_str().unwrap();
        let seen = said
            .out
            .lines()
            .filter(|line| name.ends_with(line.split(' ').nth(3).unwrap_or("-")));
        assert!(!said.ok || seen.count() == 1, "{destination}: {said:?}");
    }
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        0,
        "something was made outside"
    );
    assert!(!Path::new("/made").exists());
}
