//! Checks of containers, and what follows from them.

use std::time::Duration;

use orlop_testkit::assert_contains;
use serde_json::json;

use crate::world::{container, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_checks_is_started_anew() {
    let world = world!();
    let mut live = world.sh(
        "live",
        "touch /tmp/ok; trap 'exit 0' TERM; (sleep 3; rm /tmp/ok) & while :; do sleep 0.1; done",
    );
    live["livenessProbe"] = json!({"exec": {"command": ["test", "-e", "/tmp/ok"]}, "periodSeconds": 1, "failureThreshold": 2});
    let liveness = world.run("liveness", json!({"containers": [live]}));
    let mut stuck = world.idle("stuck");
    stuck["startupProbe"] =
        json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2});
    stuck["readinessProbe"] = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    let startup = world.run("startup", json!({"containers": [stuck]}));
    world.event(&liveness, "Unhealthy live").await;
    world.event(&liveness, "Killing live").await;
    world
        .until(&liveness, "restarted", |view| view.restarts >= 1)
        .await;
    world.event(&startup, "Killing stuck").await;
    let view = world
        .until(&startup, "restarted", |view| view.restarts >= 1)
        .await;
    assert_eq!(container(&view, "stuck")["started"], false);
    assert!(!view.ready, "the startup probe has never succeeded");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_comes_and_goes_over_http_and_tcp() {
    let world = world!();
    let mut web = world.sh(
        "web",
        "mkdir /www; echo ok > /www/ready; exec httpd -f -p 8080 -h /www",
    );
    web["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    web["startupProbe"] =
        json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 30});
    web["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1, "failureThreshold": 1});
    let uid = world.run("web", json!({"containers": [web]}));
    let view = world.ready(&uid).await;
    assert!(container(&view, "web")["started"] == true && !view.ips.is_empty());
    world.exec(&uid, "web", "rm /www/ready").await;
    let view = world.until(&uid, "unready", |view| !view.ready).await;
    assert_eq!(view.restarts, 0);
    world.event(&uid, "Unhealthy web").await;
    world.exec(&uid, "web", "echo ok > /www/ready").await;
    world.ready(&uid).await;
    let metrics = world.manager.probe_metrics();
    assert_contains!(metrics, "prober_probe_total{", "result=\"failed\"");
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.finish().await;
}
