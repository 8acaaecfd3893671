//! Names, sockets and directories that are wrong.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::bad_input::judge::judge;

#[test]
fn surroundings_that_are_wrong() {
    let judge = judge!();
    let plain = judge.rig.outside("some").join("plain");
    fs::write(&plain, "text").unwrap();
    let shown = plain.to_str().unwrap().to_owned();
    judge.config(|it| it["root"]["path"] = shown.clone().into(), "root.path");
    judge.config(|it| it["root"]["path"] = "/no/such".into(), "root.path");
    let config = judge.rig.config(&["true"]);
    let (id, bundle) = judge.rig.bundle(&config);
    for name in ["../up", "a/b", "/abs", "", ".", "..", "a b", ".seccomp"] {
        let why = format!("orlop-run create failed: invalid container ID format: {name:?}");
        let args = [
            "create".as_ref(),
            "--bundle".as_ref(),
            bundle.as_os_str(),
            name.as_ref(),
        ];
        judge.refused(&args, 1, &why);
        judge.nothing_is_left(&id, &why);
    }
    let mut terminal = judge.rig.config(&["true"]);
    terminal["process"]["terminal"] = true.into();
    fs::write(bundle.join("config.json"), terminal.to_string()).unwrap();
    for (socket, why) in [
        (
            "/no/such",
            "--console-socket /no/such: no such file or directory",
        ),
        (&shown, "--console-socket"),
    ] {
        let args = [
            "create",
            "--console-socket",
            socket,
            "--bundle",
            bundle.to_str().unwrap(),
            &id,
        ];
        let why = format!("orlop-run create failed: {why}");
        judge.refused(&args.map(OsStr::new), 1, &why);
        judge.nothing_is_left(&id, &why);
    }
    judge.verdict();
}

#[test]
fn directories_of_states_that_are_somebody_elses() {
    let judge = judge!();
    let config = judge.rig.config(&["true"]);
    let (id, bundle) = judge.rig.bundle(&config);
    let root = judge.rig.outside("state");
    for (owner, mode, why) in [
        (
            65534,
            0o755,
            "the directory belongs to user 65534, who could change its contents",
        ),
        (
            0,
            0o777,
            "other users can write to the directory (mode 777); use a directory that only you can write to",
        ),
        (
            0,
            0o775,
            "other users can write to the directory (mode 775)",
        ),
    ] {
        chown(&root, Some(owner), None).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
        let why = format!("--root {}: {why}", root.display());
        judge.bundle(&id, &bundle, &why);
    }
    fs::remove_dir_all(&root).unwrap();
    fs::write(&root, "text").unwrap();
    let why = format!("--root {}: ", root.display());
    for verb in ["create", "run"] {
        let args = [
            verb.as_ref(),
            "--bundle".as_ref(),
            bundle.as_os_str(),
            id.as_ref(),
        ];
        // The rig makes the directory before each call.
        let mut command = Command::new(&judge.rig.runtime);
        command.arg("--root").arg(&root).args(args as [&OsStr; 4]);
        let why = format!("msg=\"orlop-run {verb} failed: {why}");
        let err = judge.told(&mut command, 1, &why);
        if !err.contains(&why) || err.lines().count() != 1 {
            judge.wrong(format!("wanted {why:?}\n   got {err:?}"));
        }
    }
    fs::remove_file(&root).unwrap();
    judge.verdict();
}
