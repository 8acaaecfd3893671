//! Volumes and variables.

use orlop_testkit::assert_contains;
use serde_json::json;

use crate::world::{container, world};

#[tokio::test(flavor = "multi_thread")]
async fn volumes_and_variables_are_as_the_manifest_says() {
    let world = world!();
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "config", "namespace": "test"},
                        "data": {"key": "value", "file.conf": "text"}});
    let secret = json!({"kind": "Secret", "metadata": {"name": "secret", "namespace": "test"},
                        "data": {"word": "c2VzYW1l"}});
    let mut main = world.idle("main");
    main["env"] = json!([
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "key"}}},
        {"name": "BUILT", "value": "$(KEY)-$(POD_IP)-$(NODE)"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "ALL", "value": "$(KEY) $(POD_IP) $(NODE)"},
    ]);
    main["envFrom"] = json!([{"secretRef": {"name": "secret"}, "prefix": "S_"}]);
    main["volumeMounts"] = json!([
        {"name": "config", "mountPath": "/config"},
        {"name": "secret", "mountPath": "/secret"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "scratch", "mountPath": "/part", "subPathExpr": "$(KEY)/deep"},
        {"name": "config", "mountPath": "/one", "subPath": "file.conf"},
        {"name": "all", "mountPath": "/all"},
    ]);
    let spec = json!({
        "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["db"]}],
        "securityContext": {"fsGroup": 2000},
        "containers": [main],
        "volumes": [
            {"name": "config", "configMap": {"name": "config", "defaultMode": 0o400}},
            {"name": "secret", "secret": {"secretName": "secret", "items": [{"key": "word", "path": "a/b"}]}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "config", "items": [{"key": "key", "path": "from-config"}]}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}},
        ],
    });
    let uid = world.run_with("files", spec.clone(), &[config, secret.clone()]);
    let view = world.ready(&uid).await;
    let shown = &container(&view, "main")["volumeMounts"];
    assert_eq!(shown[0], json!({"name": "config", "mountPath": "/config"}));
    let ip = view.ips[0].to_string();
    let rows = [
        ("echo $ALL", format!("value {ip} node")),
        ("echo $BUILT", "value-$(POD_IP)-$(NODE)".to_owned()),
        ("echo $S_word", "sesame".to_owned()),
        ("cat /config/key", "value".to_owned()),
        ("stat -L -c '%a %g' /config/key", "440 2000".to_owned()),
        ("cat /secret/a/b", "sesame".to_owned()),
        (
            "cat /all/from-config /all/labels",
            "valueapp=\"files\"".to_owned(),
        ),
        ("cat /one", "text".to_owned()),
        ("grep -c ' /memory tmpfs' /proc/mounts", "1".to_owned()),
        ("stat -c '%a %g' /scratch", "2777 2000".to_owned()),
        ("touch /part/x; ls /scratch/value/deep", "x".to_owned()),
        (
            "touch /config/no 2>/dev/null || echo refused",
            "refused".to_owned(),
        ),
        ("grep -c 192.0.2.9 /etc/hosts", "1".to_owned()),
        ("grep -w files /etc/hosts | cut -f1", ip.clone()),
        ("hostname", "files".to_owned()),
        ("readlink /config/key", "..data/key".to_owned()),
    ];
    for (script, wanted) in rows {
        assert_eq!(world.exec(&uid, "main", script).await, wanted, "{script}");
    }
    // A change of the object is seen in the running container, and in nothing else.
    let changed = json!({"kind": "ConfigMap", "metadata": {"name": "config", "namespace": "test"},
                         "data": {"key": "another", "file.conf": "text"}});
    world.run_with("files", spec, &[changed, secret]);
    let mut got = String::new();
    for _ in 0..200 {
        got = world.exec(&uid, "main", "cat /config/key").await;
        if got == "another" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(got, "another");
    assert_eq!(
        container(&*world.ready(&uid).await, "main")["restartCount"],
        0
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_keeps_a_pod_back_and_says_why() {
    let world = world!();
    let mut main = world.idle("main");
    main["envFrom"] = json!([{"configMapRef": {"name": "none"}}]);
    let config = world.run("no-config", json!({"containers": [main]}));
    let mount = world.run(
        "no-mount",
        json!({"containers": [world.idle("main")],
               "volumes": [{"name": "v", "hostPath": {"path": world.dir("x").join("none"), "type": "Directory"}}]}),
    );
    let claim = world.run(
        "claim",
        json!({"containers": [world.idle("main")],
               "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
    );
    let view = world
        .until_summary(&config, "CreateContainerConfigError")
        .await;
    let said = &container(&view, "main")["state"]["waiting"]["message"];
    assert_contains!(said.as_str().unwrap(), "\"none\" not found");
    world.event(&mount, "FailedMount -").await;
    assert!(
        world.story(&mount).contains("is not a directory"),
        "{}",
        world.story(&mount)
    );
    world
        .until(&mount, "told why", |view| {
            let said = &container(view, "main")["state"]["waiting"]["message"];
            said.as_str()
                .is_some_and(|it| it.contains("is not a directory"))
        })
        .await;
    world.event(&claim, "FailedMount -").await;
    assert!(
        world.story(&claim).contains("persistentVolumeClaim"),
        "{}",
        world.story(&claim)
    );
    // What comes later helps.
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "none", "namespace": "test"}, "data": {"a": "b"}});
    world.run_with("no-config", json!({"containers": [main]}), &[object]);
    world.ready(&config).await;
    std::fs::create_dir(world.dir("x").join("none")).unwrap();
    world.ready(&mount).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_writes_variables_for_others() {
    let world = world!();
    let with = |script: &str, references: serde_json::Value| {
        let mut write = world.sh("write", script);
        write["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        let mut main = world.idle("main");
        main["env"] = references;
        json!({"initContainers": [write], "containers": [main],
               "volumes": [{"name": "v", "emptyDir": {}}]})
    };
    let key = |name: &str, path: &str, optional: bool| {
        json!({"name": name, "valueFrom": {"fileKeyRef":
            {"volumeName": "v", "path": path, "key": name, "optional": optional}}})
    };
    let references = json!([
        key("A", "d/env", false),
        key("B", "d/env", true),
        key("C", "none", true),
        {"name": "D", "value": "<$(A)>"},
    ]);
    let script = "mkdir /v/d; printf \"# for others\\nA='one two' # comment\\n\" > /v/d/env";
    let uid = world.run("reads", with(script, references));
    world.ready(&uid).await;
    let shown = world
        .exec(&uid, "main", "echo \"$A|${B-none}|${C-none}|$D\"")
        .await;
    assert_eq!(shown, "one two|none|none|<one two>");

    // Whoever writes the file does not get at other files, and cannot keep the node waiting.
    for (name, script, why) in [
        ("missing", "true", "does not exist"),
        ("without", "echo \"X='1'\" > /v/env", "\"A\" not found"),
        ("unquoted", "echo A=1 > /v/env", "single quotes"),
        ("outside", "ln -s /etc/passwd /v/env", "does not exist"),
        ("fifo", "mkfifo /v/env", "not a regular file"),
    ] {
        let uid = world.run(name, with(script, json!([key("A", "env", false)])));
        let view = world
            .until_summary(&uid, "CreateContainerConfigError")
            .await;
        let message = &container(&view, "main")["state"]["waiting"]["message"];
        assert!(message.as_str().unwrap().contains(why), "{name}: {message}");
    }
    world.finish().await;
}
