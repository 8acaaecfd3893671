//! The agent on a Docker Engine.

use std::time::Duration;

use orlop_testkit::{DockerEngine, Node};

use crate::world::{World, container_ids};

/// A world whose pods are a Docker Engine's. The engine goes last.
async fn on_docker(settings: orlop_testkit::docker::Settings) -> (World, DockerEngine) {
    let engine = settings.start();
    let config = format!(
        "backend = \"docker\"\n[docker]\nendpoint = \"{}\"\nroot = \"{}\"\n",
        engine.socket().display(),
        engine.socket().with_file_name("shim").display()
    );
    let world = World::on(Node::orlop().config(&config)).await;
    (world, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_manifests_run_on_a_docker_engine() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let (world, engine) = on_docker(DockerEngine::settings()).await;
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: words}}\ndata: {{greeting: hello}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: full}}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  initContainers:\n  - name: before\n    image: {0}\n    \
         imagePullPolicy: IfNotPresent\n    command: [sh, -c, 'echo made > /shared/file']\n    \
         volumeMounts: [{{name: shared, mountPath: /shared}}]\n  containers:\n  - name: main\n    \
         image: {0}\n    imagePullPolicy: Never\n    command: [sh, -c, 'cat /shared/file \
         /words/greeting; echo; echo $IP; httpd -f -p 80 -h /shared']\n    env:\n    - name: IP\n      \
         valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}\n    readinessProbe:\n      httpGet: \
         {{path: /file, port: 80}}\n      periodSeconds: 1\n    livenessProbe:\n      exec: {{command: \
         [cat, /shared/file]}}\n      periodSeconds: 1\n      failureThreshold: 1\n    resources: \
         {{limits: {{memory: 64Mi, cpu: 500m}}}}\n    volumeMounts:\n    - {{name: shared, mountPath: \
         /shared}}\n    - {{name: words, mountPath: /words}}\n  volumes:\n  - {{name: shared, \
         emptyDir: {{}}}}\n  - {{name: words, configMap: {{name: words}}}}\n",
        world.busybox
    );
    world.write("full.yaml", &template);
    let mut agent = world.agent(&[]);
    let pod = agent.ready("full-n1").await;
    let ip = pod["status"]["podIP"].as_str().unwrap().to_owned();
    agent.log("full-n1", &format!("made\nhello\n{ip}\n")).await;
    let names = engine.docker(&["ps", "--format", "{{.Names}}"]);
    orlop_testkit::assert_contains!(
        names,
        "k8s_main_full-n1_default_",
        "k8s_POD_full-n1_default_"
    );

    // What the liveness probe looks for is gone: the container is started anew.
    let id = container_ids(&pod)[0].clone();
    let id = id.rsplit('/').next().unwrap();
    engine.docker(&["exec", id, "rm", "/shared/file"]);
    agent
        .until("full-n1", "started anew", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
    agent.finish(&world).await;
    assert_eq!(engine.docker(&["ps", "-aq"]), "");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_back_when_the_engine_does() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let (world, mut engine) = on_docker(DockerEngine::settings()).await;
    world.write("web.yaml", &world.sleeper("web", "", ""));
    let mut agent = world.agent(&[]);
    let before = agent.ready("web-n1").await;
    // Its containers end with it.
    engine.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.start_again();
    let after = agent
        .until("web-n1", "running anew", |pod| {
            crate::world::is_ready(pod) && container_ids(pod) != container_ids(&before)
        })
        .await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    agent.finish(&world).await;
    world.finish().await;
}
