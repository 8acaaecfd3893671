//! Several ids, which only programs of root's can map.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_testkit::{assert_contains, machine};
use serde_json::{Value, json};

use crate::rootless::user::{ID, ended, out, refusal, user};

/// Root is the user, and ids from 1 on are others.
fn with_many(config: &mut Value) {
    for (name, first) in [("uidMappings", 300_000), ("gidMappings", 400_000)] {
        config["linux"][name] = json!([
            { "containerID": 0, "hostID": ID, "size": 1 },
            { "containerID": 1, "hostID": first, "size": 65_535 },
        ]);
    }
}

#[test]
fn where_the_programs_are_missing_it_is_said_which() {
    let user = user!();
    let mut config = user.config(&["true"]);
    with_many(&mut config);
    let (id, bundle) = user.bundle(&config);
    let mut command = user.command();
    command.env("PATH", "/nowhere");
    command.args(["run", "--bundle"]).arg(bundle).arg(id);
    let said = refusal(ended(&mut command));
    for words in ["mapping tool not present", "newuidmap", "uidmap"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// Programs in place of root's, which leave a question behind that this test answers.
#[test]
fn many_ids_are_mapped_by_programs() {
    let user = user!();
    let programs = user.scratch.subdir("programs");
    let asked = user.dir("asked");
    for name in ["newuidmap", "newgidmap"] {
        let script = format!(
            "#!/bin/sh\ncd {0} && echo \"$@\" > {name}.tmp && mv {name}.tmp {name}\nwhile ! test -e {name}.done; do sleep 0.01; done\n",
            asked.display()
        );
        let program = programs.join(name);
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = "id; cat /proc/self/uid_map /proc/self/gid_map";
    let mut config = user.config(&["sh", "-c", script]);
    with_many(&mut config);
    config["process"]["user"] = json!({ "uid": 1000, "gid": 1001 });
    let (id, bundle) = user.bundle(&config);
    let mut command = user.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command.args(["run", "--bundle"]).arg(bundle).arg(&id);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            answer(&asked, "newuidmap", "uid_map", 300_000);
            answer(&asked, "newgidmap", "gid_map", 400_000);
        });
        out(ended(&mut command))
    });
    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(words[..2], ["uid=1000", "gid=1001"], "{said}");
    let own = ID.to_string();
    assert_eq!(
        words[2..8],
        ["0", &own, "1", "1", "300000", "65535"],
        "{said}"
    );
    assert_eq!(
        words[8..],
        ["0", &own, "1", "1", "400000", "65535"],
        "{said}"
    );
}

/// Does what a program was asked for.
fn answer(asked: &Path, program: &str, file: &str, first: u32) {
    let deadline = Instant::now() + Duration::from_secs(10) * machine::patience();
    let question = loop {
        if let Ok(question) = fs::read_to_string(asked.join(program)) {
            break question;
        }
        assert!(Instant::now() < deadline, "{program} was not asked");
        std::thread::sleep(Duration::from_millis(2));
    };
    let (pid, maps) = question.trim().split_once(' ').unwrap();
    assert_eq!(maps, format!("0 {ID} 1 1 {first} 65535"));
    let maps = format!("0 {ID} 1\n1 {first} 65535\n");
    fs::write(format!("/proc/{pid}/{file}"), maps).unwrap();
    fs::write(asked.join(format!("{program}.done")), "").unwrap();
}

#[test]
fn what_a_program_says_is_passed_on() {
    let user = user!();
    let programs = user.scratch.subdir("programs");
    let program = programs.join("newuidmap");
    fs::write(&program, "#!/bin/sh\necho 'not allowed here' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = user.config(&["true"]);
    with_many(&mut config);
    let (id, bundle) = user.bundle(&config);
    let mut command = user.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command.args(["run", "--bundle"]).arg(bundle).arg(&id);
    let said = refusal(ended(&mut command));
    assert_contains!(said, "newuidmap", "not allowed here");
}
