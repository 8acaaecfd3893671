//! Descriptors of the host, and ways to it by them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::rig::{Rig, Said, also, ended, rig, volume, without};

/// A runtime whose caller left it directories of the host open.
fn with_leaks(command: &Command, outside: &Path) -> Command {
    let mut leaking = Command::new("sh");
    leaking
        .args(["-c", "exec 7<\"$0\" 9</ && exec \"$@\""])
        .arg(outside);
    leaking.arg(command.get_program()).args(command.get_args());
    leaking
}

fn marked(rig: &Rig) -> std::path::PathBuf {
    let outside = rig.outside("outside");
    let program = outside.join("marker");
    fs::write(&program, "#!/bin/sh\necho marker\n").unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    outside
}

/// CVE-2024-21626: a descriptor of the host's is left open in the container's process.
#[test]
fn no_descriptor_of_the_host_is_left_in_a_container() {
    let rig = rig!();
    let outside = marked(&rig);
    let listing = [
        "sh",
        "-c",
        "ls -l /proc/self/fd/ && for fd in /proc/self/fd/*; do ls -d $fd/marker; done",
    ];
    let run = |args: &[&str]| {
        let (id, bundle) = rig.bundle(&rig.config(args));
        let mut command = rig.command();
        command.args(["run", "--bundle"]).arg(bundle).arg(id);
        ended(&mut with_leaks(&command, &outside))
    };
    only_streams(&run(&listing), &outside);

    let container = rig.start(&rig.config(&["sleep", "60"]));
    let mut exec = rig.command();
    exec.args(["exec", &container.id]).args(listing);
    only_streams(&ended(&mut with_leaks(&exec, &outside)), &outside);
}

/// Others in its PID namespace may reach the descriptors of a process that waits to be started.
#[test]
fn a_container_that_waits_for_its_start_holds_no_directory_of_the_host() {
    let rig = rig!();
    let mut hidden = rig.config(&["true"]);
    without(&mut hidden, "/proc");
    for config in [rig.config(&["true"]), hidden] {
        let container = rig.create(&config).expect("create a container");
        let process = Path::new("/proc").join(container.pid.to_string());
        let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        let own_root = place(&process.join("root")).unwrap();
        for entry in fs::read_dir(process.join("fd")).unwrap() {
            let path = entry.unwrap().path();
            if !fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
                continue;
            }
            // What it has of directories is in a /proc of its own.
            let top = path.join("../".repeat(20));
            assert!(
                top.join("self").is_symlink() || place(&top).unwrap() == own_root,
                "{} leads to {}",
                path.display(),
                fs::read_link(&path).unwrap().display()
            );
        }
    }
}

/// Descriptors that the runtime opens take the numbers that its caller left free: its log does.
#[test]
fn what_the_runtime_opened_itself_is_not_passed_on() {
    let rig = rig!();
    let log = rig.outside("log").join("log");
    let container = rig.start(&rig.config(&["sleep", "60"]));
    for logs in [false, true] {
        let (id, bundle) = rig.bundle(&rig.config(&["true"]));
        let runtime = rig.command();
        let call = |verb: &[&std::ffi::OsStr]| {
            let mut command = Command::new("sh");
            command.args(["-c", "exec 3<&- 4<&- 5<&-; exec \"$0\" \"$@\""]);
            command.arg(runtime.get_program()).args(runtime.get_args());
            if logs {
                command.arg("--log").arg(&log);
            }
            ended(command.args(verb))
        };
        let preserve = ["--preserve-fds".as_ref(), "1".as_ref()];
        let run = ["run".as_ref(), "--bundle".as_ref(), bundle.as_ref()];
        let exec = [container.id.as_ref(), "true".as_ref()];
        for verb in [
            [&run, &preserve[..], &[id.as_ref()]].concat(),
            [&["exec".as_ref()], &preserve[..], &exec].concat(),
        ] {
            let said = call(&verb);
            assert!(!said.ok && said.err.contains("descriptor 3"), "{said:?}");
        }
    }
}

/// A profile older than `close_range(2)` and `faccessat2(2)`, as many have: it refuses what it does not know.
#[test]
fn no_descriptor_is_left_where_the_profile_knows_no_new_calls() {
    let rig = rig!();
    let outside = marked(&rig);
    for (no_new_privileges, number) in [(true, 1), (false, 1), (true, 38), (false, 38)] {
        let mut config = rig.config(&["ls", "-l", "/proc/self/fd/"]);
        config["process"]["noNewPrivileges"] = no_new_privileges.into();
        config["linux"]["seccomp"] = serde_json::json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{
                "names": ["close_range", "faccessat2"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": number,
            }],
        });
        let (id, bundle) = rig.bundle(&config);
        let mut command = rig.command();
        command.args(["run", "--bundle"]).arg(bundle).arg(id);
        only_streams(&ended(&mut with_leaks(&command, &outside)), &outside);

        config["process"]["args"] = serde_json::json!(["sleep", "60"]);
        let container = rig.start(&config);
        let mut exec = rig.command();
        exec.args(["exec", &container.id, "ls", "-l", "/proc/self/fd/"]);
        only_streams(&ended(&mut with_leaks(&exec, &outside)), &outside);
    }
}

fn only_streams(said: &Said, outside: &Path) {
    let open: Vec<_> = said
        .out
        .lines()
        .filter(|line| line.contains(" -> "))
        .collect();
    assert!(!open.is_empty(), "{said:?}");
    for line in open {
        let (name, target) = line.rsplit_once(" -> ").unwrap();
        let number: u32 = name
            .split_whitespace()
            .next_back()
            .unwrap()
            .parse()
            .unwrap();
        // `ls` itself has the directory open.
        assert!(number <= 2 || target.ends_with("/fd"), "{said:?}");
    }
    assert!(!said.out.contains("marker\n"), "{said:?}");
    assert!(!said.out.contains(outside.to_str().unwrap()), "{said:?}");
}

/// CVE-2024-21626, as it was done: the working directory is one of the runtime's open directories.
#[test]
fn no_working_directory_leads_to_the_host() {
    let rig = rig!();
    let outside = marked(&rig);
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let places = (3..24).map(|fd| (fd, format!("/proc/self/fd/{fd}"), format!("link{fd}")));
    for (fd, direct, link) in places {
        symlink(&direct, rig.root.join(&link)).unwrap();
        for cwd in [direct, format!("/{link}")] {
            let look = ["sh", "-c", "pwd; ls; ls .. ; ls ../../../../../../../.."];
            let mut config = rig.config(&look);
            config["process"]["cwd"] = cwd.as_str().into();
            let (id, bundle) = rig.bundle(&config);
            let mut run = rig.command();
            run.args(["run", "--bundle"]).arg(bundle).arg(id);
            let mut exec = rig.command();
            exec.args(["exec", "--cwd", &cwd, &container.id]).args(look);
            for command in [run, exec] {
                let said = ended(&mut with_leaks(&command, &outside));
                let host = ["marker", "boot", "home", "unreachable"];
                let leads = host
                    .iter()
                    .any(|name| said.out.split_whitespace().any(|word| word == *name));
                assert!(!leads, "{fd}: {said:?}");
            }
        }
    }
}

/// CVE-2024-21626 by the command instead of the directory.
#[test]
fn no_program_of_the_host_is_run_by_a_descriptor() {
    let rig = rig!();
    let outside = marked(&rig);
    let container = rig.start(&rig.config(&["sleep", "60"]));
    for fd in 3..24 {
        let program = format!("/proc/self/fd/{fd}/marker");
        let (id, bundle) = rig.bundle(&rig.config(&[&program]));
        let mut run = rig.command();
        run.args(["run", "--bundle"]).arg(bundle).arg(id);
        let mut exec = rig.command();
        exec.args(["exec", &container.id, &program]);
        for command in [run, exec] {
            let said = ended(&mut with_leaks(&command, &outside));
            assert!(!said.ok && !said.out.contains("marker"), "{fd}: {said:?}");
        }
    }
}

/// CVE-2025-31133 and its kin: a stream that is the null device is opened again in the container, with rights
/// that its user has not, and is made that user's then.
#[test]
fn what_lies_in_the_place_of_null_becomes_no_stream() {
    let rig = rig!();
    let dev = rig.outside("dev");
    let null = dev.join("null");
    let secret = rig.root.join("secret");
    fs::write(&secret, "of another").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = rig.config(&["sh", "-c", "cat <&0; cat /secret; echo ended"]);
    config["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
    let with_image = without_dev(&config);
    let mut with_volume = with_image.clone();
    also(&mut with_volume, volume(&dev, "/dev"));
    for of in ["the image", "a volume"] {
        for kind in ["a file", "a link"] {
            let (config, null) = match of {
                "the image" => (&with_image, rig.root.join("dev/null")),
                _ => (&with_volume, null.clone()),
            };
            let _ = fs::remove_file(&null);
            match kind {
                "a link" => symlink("/secret", &null).unwrap(),
                _ => fs::hard_link(&secret, &null).unwrap(),
            }
            let said = rig.run(config);
            // To refuse such an image is right, too.
            assert!(!said.ok || said.out == "ended\n", "{of}, {kind}: {said:?}");
            assert_eq!(fs::metadata(&secret).unwrap().uid(), 0, "{of}, {kind}");
            if of == "a volume" {
                assert!(said.ok, "{kind}: {said:?}");
            }
        }
    }
}

/// Of a `/dev` that has no null device nobody gets the host's to change.
#[test]
fn no_container_changes_the_null_device_of_the_host() {
    let rig = rig!();
    let mode = fs::metadata("/dev/null").unwrap().mode() & 0o7777;
    // What would be done changes nothing: to be allowed it is bad enough.
    let look = format!("cat <&0; echo x >&0; busybox chmod {mode:o} /proc/self/fd/0 && echo mine");
    let look = ["sh", "-c", &look];
    let mut config = without_dev(&rig.config(&look));
    also(&mut config, volume(&rig.outside("dev"), "/dev"));
    let said = rig.run(&config);
    assert!(
        said.out.is_empty() && said.err.contains("Read-only"),
        "{said:?}"
    );

    config["process"]["args"] = json!(["sleep", "60"]);
    let container = rig.start(&config);
    let said = container.exec(&[], &look);
    assert!(
        said.out.is_empty() && said.err.contains("Read-only"),
        "{said:?}"
    );
}

fn without_dev(config: &Value) -> Value {
    let mut config = config.clone();
    for place in ["/dev", "/dev/pts"] {
        without(&mut config, place);
    }
    config
}
