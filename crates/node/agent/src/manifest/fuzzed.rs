//! Bounded fuzzing of manifests.

use orlop_testkit::Fuzz;

use super::load::load;

/// A manifest is loaded, or its mistakes are reported.
#[test]
fn no_manifest_breaks_the_agent() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  \
               hostNetwork: true\n  restartPolicy: Always\n  containers:\n  - name: main\n    image: \
               busybox:1\n    command: [sh, -c, 'sleep 1']\n    ports: [{containerPort: 80}]\n    \
               resources: {limits: {memory: 64Mi, cpu: 500m}}\n    livenessProbe: {httpGet: {path: /, \
               port: 80}}\n    volumeMounts: [{name: v, mountPath: /v, subPath: a}]\n  volumes:\n  - \
               {name: v, emptyDir: {}}\n";
    let maker = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 2\n  \
                 selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    \
                 spec: {containers: [{name: c, image: x}]}\n---\napiVersion: v1\nkind: ConfigMap\n\
                 metadata: {name: m}\ndata: {k: v}\n---\napiVersion: v1\nkind: Secret\nmetadata: \
                 {name: s}\ndata: {k: dg==}\n";
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, \
                spec: {containers: [{name: c, image: i}]}}\n- {apiVersion: batch/v1, kind: Job, \
                metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: \
                [{name: c, image: i}]}}}}\n";
    Fuzz::new()
        .example(pod)
        .example(maker)
        .example(list)
        .words([
            "kind: ",
            "List",
            "items:",
            "replicas: 99999999999",
            "null",
            "[]",
            "{}",
            "&a ",
            "*a",
            "<<: *a",
        ])
        .words([
            "-1",
            "1e999",
            "../..",
            "name: ''",
            "---\n",
            "\\ud800",
            "containers:",
            "[[[[[[",
        ])
        .run(|input| {
            let _ = load("fuzzed", &String::from_utf8_lossy(input)).has_errors();
        });
}
