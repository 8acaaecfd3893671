//! Programs and hooks that cannot be run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::bad_input::judge::judge;
use crate::rig::rig;

#[test]
fn programs_that_are_none() {
    let judge = judge!();
    let root = judge.rig.root.clone();
    fs::write(root.join("bin/plain"), "text").unwrap();
    fs::write(root.join("bin/format"), "\u{7f}none").unwrap();
    fs::set_permissions(root.join("bin/format"), fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        (
            "no-such",
            "exec: \"no-such\": executable file not found in $PATH",
        ),
        (
            "/no/such",
            "exec: \"/no/such\": stat /no/such: no such file or directory",
        ),
        ("/bin", "exec: \"/bin\": is a directory"),
        ("/bin/plain", "exec: \"/bin/plain\": permission denied"),
        ("/bin/plain/x", "exec: \"/bin/plain/x\": "),
    ];
    for (program, why) in cases {
        judge.config(|it| it["process"]["args"] = json!([program]), why);
    }
    let why =
        "process.cwd: chdir to cwd (\"/bin/plain\") set in config.json failed: not a directory";
    judge.config(|it| it["process"]["cwd"] = "/bin/plain".into(), why);
    // Those that join a container end with another code.
    let config = judge.rig.config(&["sleep", "600"]);
    let container = judge.rig.start(&config);
    let id = container.id.clone();
    let format = [("/bin/format", "exec /bin/format: exec format error")];
    for (program, why) in cases.into_iter().chain(format) {
        let why = format!("exec failed: unable to start container process: {why}");
        judge.refused(&["exec".as_ref(), id.as_ref(), program.as_ref()], 255, &why);
    }
    let cwd = ["exec", "--cwd", "/bin/plain", &id, "true"].map(OsStr::new);
    judge.refused(&cwd, 255, "exec failed: unable to start container process: process.cwd: chdir to cwd (\"/bin/plain\")");
    let cwd = ["exec", "--user", "root", &id, "true"].map(OsStr::new);
    judge.refused(
        &cwd,
        255,
        "exec failed: --user: parsing root as int for uid failed",
    );
    let gone = ["exec", "nobody-there", "true"].map(OsStr::new);
    judge.refused(&gone, 255, "exec failed: container does not exist");
    let processes = container.exec(&[], &["busybox", "ps", "-o", "comm"]);
    assert_eq!(processes.out.lines().count(), 3, "{processes:?}");
    judge.verdict();
}

/// It is known only when the container starts, and told by what would have been the program.
#[test]
fn a_program_of_no_format() {
    let rig = rig!();
    let program = rig.root.join("bin/format");
    fs::write(&program, "\u{7f}none").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let said = rig.run(&rig.config(&["/bin/format"]));
    assert!(!said.ok, "{said:?}");
    assert_eq!(said.err, "exec /bin/format: exec format error\n");
}

#[test]
fn hooks_that_fail() {
    let judge = judge!();
    let outside = judge.rig.outside("hooks");
    let plain = outside.join("plain");
    fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for stage in ["prestart", "createRuntime"] {
        for (hook, why) in [
            (
                json!({ "path": "/no/such" }),
                "/no/such: no such file or directory".to_owned(),
            ),
            (
                json!({ "path": plain }),
                format!("{plain}: permission denied"),
            ),
            (
                json!({ "path": "/bin/sleep", "args": ["sleep", "60"], "timeout": 1 }),
                "/bin/sleep: timed out after 1 s and was killed".to_owned(),
            ),
            (
                json!({ "path": "/bin/sh", "args": ["sh", "-c", "echo so; exit 7"] }),
                "/bin/sh: exit status 7, stdout: so, stderr: ".to_owned(),
            ),
        ] {
            if stage == "createRuntime" && hook["timeout"] == 1 {
                // Both stages are run by the same lines, and each wait is a second.
                continue;
            }
            let why = format!("error running {stage} hook #0: {why}");
            judge.config(|it| it["hooks"] = json!({ stage: [hook] }), &why);
        }
    }
    for (hook, why) in [
        (
            json!({ "path": "/no/such" }),
            "error running createContainer hook #0: exit status 127 (is the program missing?)",
        ),
        (
            json!({ "path": plain }),
            "error running createContainer hook #0: ",
        ),
        (
            json!({ "path": "/bin/sleep", "args": ["sleep", "60"], "timeout": 1 }),
            "error running createContainer hook #0: timed out and was killed",
        ),
        (
            json!({ "path": "relative" }),
            "hooks.createContainer[0]: path: \"relative\" is not absolute",
        ),
        (
            json!({ "path": "/bin/true", "timeout": 0 }),
            "hooks.createContainer[0]: timeout: 0 is not greater than 0",
        ),
    ] {
        judge.config(|it| it["hooks"] = json!({ "createContainer": [hook] }), why);
    }
    judge.verdict();
}
