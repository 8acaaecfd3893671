//! What a user asks for in vain.

use serde_json::{Value, json};

use crate::rootless::user::{ended, out, refusal, user};

#[test]
fn what_takes_root_is_refused_in_runcs_words() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 11] = [
        (
            |config| {
                let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
                namespaces.retain(|it| it["type"] != "user");
            },
            "rootless container requires user namespaces",
        ),
        (
            |config| config["linux"]["uidMappings"] = json!([]),
            "rootless containers requires at least one UID mapping",
        ),
        (
            |config| config["linux"]["gidMappings"] = json!([]),
            "rootless containers requires at least one GID mapping",
        ),
        (
            |config| config["process"]["user"]["additionalGids"] = json!([7]),
            "cannot set any additional groups in a rootless container",
        ),
        (
            |config| config["process"]["user"]["uid"] = 5.into(),
            "cannot set uid to unmapped user in user namespace",
        ),
        (
            |config| config["process"]["user"]["gid"] = 5.into(),
            "cannot set gid to unmapped user in user namespace",
        ),
        (
            |config| tmpfs(config, "uid=5"),
            "cannot specify uid= mount options for unmapped uid in rootless containers",
        ),
        (
            |config| tmpfs(config, "gid=5"),
            "cannot specify gid= mount options for unmapped gid in rootless containers",
        ),
        (
            |config| tmpfs(config, "idmap"),
            "id-mapped mounts are not supported for rootless containers",
        ),
        (
            |config| {
                let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
                namespaces.push(json!({ "type": "network" }));
                config["linux"]["netDevices"] = json!({ "some0": {} });
            },
            "network devices are not supported for rootless containers",
        ),
        (
            |config| config["process"]["oomScoreAdj"] = (-500).into(),
            "oom_score_adj: permission denied",
        ),
    ];
    let user = user!();
    for (change, words) in cases {
        let mut config = user.config(&["true"]);
        change(&mut config);
        let said = refusal(user.run(&config));
        assert!(said.contains(words), "{words}: {said}");
    }
    // Nothing is left of them.
    assert_eq!(out(user.says(&["list", "--quiet"])), "");
    let mut config = user.config(&["true"]);
    tmpfs(&mut config, "uid=0");
    out(user.run(&config));
}

fn tmpfs(config: &mut Value, option: &str) {
    config["mounts"].as_array_mut().unwrap().push(json!({
        "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [option],
    }));
}

#[test]
fn who_joins_is_refused_the_same() {
    let user = user!();
    let id = user.start(&user.config(&["sleep", "60"]));
    for (flags, words) in [
        (
            ["--user", "5"],
            "cannot set uid to unmapped user in user namespace",
        ),
        (
            ["--user", "0:5"],
            "cannot set gid to unmapped user in user namespace",
        ),
        (
            ["--additional-gids", "7"],
            "cannot set any additional groups in a rootless container",
        ),
    ] {
        let said = refusal(user.says(&["exec", flags[0], flags[1], &id, "true"]));
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn rootless_is_true_false_or_as_it_is_found() {
    let user = user!();
    for (value, well) in [
        ("auto", true),
        ("", true),
        ("true", true),
        ("1", true),
        ("perhaps", false),
    ] {
        let (id, bundle) = user.bundle(&user.config(&["true"]));
        let mut command = user.command();
        command.arg(format!("--rootless={value}"));
        command.args(["run", "--bundle"]).arg(bundle).arg(id);
        let said = ended(&mut command);
        assert_eq!(said.code == Some(0), well, "{value}: {said:?}");
    }
}
