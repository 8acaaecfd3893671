//! Manifests that come, change, go and are wrong.

use std::time::Duration;

use crate::world::{container_ids, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_manifest_is_told_and_spares_the_others() {
    let world = world!();
    world.write("good.yaml", &world.sleeper("good", "hostNetwork: true", ""));
    world.write(
        "syntax.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x\nspec: }\n",
    );
    let doubtful = world.sleeper("doubtful", "hostNetwork: true", "imagee: oops");
    world.write("doubtful.yaml", &doubtful);
    let wrong = world.sleeper(
        "wrong",
        "hostNetwork: true",
        "ports: [{containerPort: 70000}]",
    );
    world.write("wrong.yaml", &wrong);
    let mut agent = world.agent(&[]);

    let good = agent.ready("good-n1").await;
    assert_eq!(
        good["metadata"]["annotations"]["kubernetes.io/config.source"],
        "file"
    );
    assert_eq!(good["spec"]["nodeName"], "n1");
    agent.ready("doubtful-n1").await;
    agent.remark(&["syntax.yaml:", "error"]).await;
    agent
        .remark(&[
            "doubtful.yaml:13:",
            "warning",
            "\"spec.containers[0].imagee\"",
        ])
        .await;
    agent
        .remark(&[
            "wrong.yaml:13:",
            "error",
            "spec.containers[0].ports[0].containerPort",
            "70000",
        ])
        .await;
    assert!(agent.pod("wrong-n1").is_none());

    // Mended, it runs; and the other pods have not been touched.
    let mended = wrong.replace("70000", "8080");
    world.write("wrong.yaml", &mended);
    agent.ready("wrong-n1").await;
    let again = agent.pod("good-n1").unwrap();
    assert_eq!(container_ids(&again), container_ids(&good));

    // Gone bad, it stays as it was.
    world.write("good.yaml", "apiVersion: v1\nkind: Pod\n  oops");
    agent
        .remark(&["good.yaml", "keeps its last valid version"])
        .await;
    let again = agent.pod("good-n1").unwrap();
    assert_eq!(container_ids(&again), container_ids(&good));
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_shown_with_what_its_class_adds() {
    let world = world!();
    let class = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: guest}\nhandler: test\n\
        overhead: {podFixed: {memory: 64Mi}}\n\
        scheduling: {tolerations: [{key: guests, operator: Exists}]}\n";
    world.write("class.yaml", class);
    let spec = "hostNetwork: true\n  runtimeClassName: guest";
    world.write("guest.yaml", &world.sleeper("guest", spec, ""));
    let mut agent = world.agent(&[]);
    let shown = agent.ready("guest-n1").await;
    assert_eq!(shown["spec"]["overhead"]["memory"], "64Mi", "{shown}");
    let tolerations = shown["spec"]["tolerations"].to_string();
    assert!(tolerations.contains("\"guests\""), "{tolerations}");
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_manifest_ends_its_pod_at_once_and_a_changed_one_replaces_it() {
    let world = world!();
    let text = world.sleeper("web", "hostNetwork: true", "");
    world.write("web.yaml", &text);
    let mut agent = world.agent(&[]);
    let first = agent.ready("web-n1").await;

    world.write("web.yaml", &text.replace("echo hello", "echo hullo"));
    let uid = first["metadata"]["uid"].clone();
    let second = agent
        .until("web-n1", "replaced", |pod| {
            pod["metadata"]["uid"] != uid && crate::world::is_ready(pod)
        })
        .await;
    assert_ne!(container_ids(&second), container_ids(&first));

    world.remove("web.yaml");
    let took = agent.gone("web-n1").await;
    // The container heeds SIGTERM within a second, and its grace period is two.
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(world.cri.containers().await.unwrap(), Vec::<String>::new());
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_gives_pods_and_takes_values_from_its_file() {
    let world = world!();
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: words}}\ndata: {{greeting: hello}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  \
         template:\n    spec:\n      hostNetwork: true\n      terminationGracePeriodSeconds: 1\n      \
         containers:\n      - name: main\n        image: {}\n        imagePullPolicy: Never\n        \
         command: [sh, -c, 'cat /words/greeting; echo $GREETING; sleep 600']\n        env:\n        \
         - name: GREETING\n          valueFrom: {{configMapKeyRef: {{name: words, key: greeting}}}}\n        \
         volumeMounts: [{{name: words, mountPath: /words}}]\n      volumes:\n      - name: words\n        \
         configMap: {{name: words}}\n",
        world.busybox
    );
    world.write("web.yaml", &template);
    let mut agent = world.agent(&[]);
    for name in ["web-0-n1", "web-1-n1"] {
        agent.ready(name).await;
        agent.log(name, "hellohello\n").await;
    }
    agent.remark(&["warning", "rolling"]).await;
    world.write("web.yaml", &template.replace("replicas: 2", "replicas: 1"));
    agent.gone("web-1-n1").await;
    agent.ready("web-0-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}
