//! The alerts and the dashboard of `contrib/` ask for what a daemon exports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::process::{Killed, run};
use orlop_testkit::{Node, machine};
use regex_lite::Regex;
use serde_json::Value;

use crate::world::world;

fn contrib(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    root.join(path)
}

/// Every query, with the names that Grafana puts in place as it would put them.
fn queries() -> Vec<String> {
    let rules = std::fs::read_to_string(contrib("prometheus/rules.yml")).expect("rules");
    let rules = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let mut found: Vec<String> = rules.map(str::to_owned).collect();
    assert!(found.len() >= 10, "{found:?}");
    let dashboard = std::fs::read_to_string(contrib("grafana/orlop.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let of_panels = targets.map(|target| target["expr"].as_str().expect("a query"));
    let of_panels: Vec<String> = of_panels
        .map(|query| {
            query
                .replace("$__rate_interval", "5m")
                .replace("$instance", ".*")
        })
        .collect();
    assert!(of_panels.len() >= 10, "{of_panels:?}");
    found.extend(of_panels);
    found
}

/// What is exported: of each name the labels, and their values.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn exported(text: &str) -> Exported {
    let label = Regex::new(r#"([a-zA-Z_]+)="([^"]*)""#).expect("a pattern");
    let mut all = Exported::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).expect("a sample");
        let labels = all.entry(line[..end].to_owned()).or_default();
        for found in label.captures_iter(&line[end..]) {
            labels
                .entry(found[1].to_owned())
                .or_default()
                .insert(found[2].to_owned());
        }
    }
    all
}

/// What is wrong with a query.
fn problems(query: &str, exported: &Exported) -> Vec<String> {
    let name = Regex::new(r"\b((?:orlop|process)_[a-z0-9_]+)(?:\{([^}]*)\})?").expect("a pattern");
    let matcher = Regex::new(r#"([a-z_]+)(=~|!=|!~|=)"([^"]*)""#).expect("a pattern");
    let by = Regex::new(r"by \(([^)]*)\)").expect("a pattern");
    let mut wrong = Vec::new();
    let mut known = BTreeSet::from(["instance".to_owned()]);
    for found in name.captures_iter(query) {
        let Some(labels) = exported.get(&found[1]) else {
            wrong.push(format!("there is no {}", &found[1]));
            continue;
        };
        known.extend(labels.keys().cloned());
        let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
        for found in matcher.captures_iter(matchers) {
            let (label, how, value) = (&found[1], &found[2], &found[3]);
            match labels.get(label) {
                None if label == "instance" => {}
                None => wrong.push(format!("nothing has the label {label}")),
                Some(values) if how == "=" && !values.contains(value) => {
                    wrong.push(format!("no {label} is {value}: {values:?}"));
                }
                Some(_) => {}
            }
        }
    }
    let asked = by.captures_iter(query);
    let asked: Vec<String> = asked.map(|found| found[1].to_owned()).collect();
    for label in asked
        .iter()
        .flat_map(|labels| labels.split(','))
        .map(str::trim)
    {
        if !known.contains(label) {
            wrong.push(format!(
                "nothing has the label {label}, by which it is summed"
            ));
        }
    }
    if known.len() == 1 && !name.is_match(query) {
        wrong.push("it asks for nothing of ours".to_owned());
    }
    wrong
}

#[test]
fn a_query_for_what_is_not_exported_is_told() {
    let exported = exported("# TYPE x counter\norlop_x_total{kind=\"a\"} 1\norlop_y 2\n");
    let wrong = |query: &str| problems(query, &exported).len();
    assert_eq!(
        wrong("sum by (instance, kind) (rate(orlop_x_total{kind=\"a\"}[5m])) > 0"),
        0
    );
    for query in [
        "orlop_z > 0",
        "orlop_x > 0",
        "orlop_x_total{sort=\"a\"}",
        "orlop_x_total{kind=\"b\"}",
        "sum by (sort) (orlop_x_total)",
        "up == 0",
    ] {
        assert_eq!(wrong(query), 1, "{query}");
    }
}

/// Prometheus, which scrapes the daemon; ended when it is dropped.
struct Prometheus {
    _process: Killed,
    url: String,
    _dir: tempfile::TempDir,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    listener.local_addr().expect("an address").port()
}

impl Prometheus {
    fn scraping(port: u16) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("prometheus.yml");
        let rules = contrib("prometheus/rules.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s }}\nrule_files: [ {rules:?} ]\nscrape_configs:\n  - job_name: orlop\n    \
             static_configs: [ {{ targets: [ '127.0.0.1:{port}' ] }} ]\n"
        );
        std::fs::write(&config, text).expect("write a configuration");
        let own = free_port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{own}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start prometheus");
        Self {
            _process: Killed(process),
            url: format!("http://127.0.0.1:{own}"),
            _dir: dir,
        }
    }

    /// What a query brings, or why it is none.
    fn ask(&self, query: &str) -> Result<String, String> {
        let asked = Command::new("promtool")
            .args(["query", "instant", &self.url, query])
            .output()
            .expect("run promtool");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if asked.status.success() {
            Ok(text(&asked.stdout))
        } else {
            Err(text(&asked.stderr))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_and_panel_asks_for_what_is_exported() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let world = world!(Node::orlop().arg("--metrics-listen").arg(&listen));
    let spec = world.container("main").command(&["sleep", "600"]);
    world.run_container("watched", &spec).await;
    let gone = world.busybox.replace("busybox:1", "nowhere:1");
    let refused = world.cri.pull(&gone).await;
    refused.expect_err("there is no such image");
    let absent = world.container("absent").command(&["/nowhere"]);
    let pod = world.node.pod("broken").own_network();
    let pod_id = world.cri.run_pod(&pod).await.expect("run a pod");
    let made = world.cri.create(&pod_id, &pod, &absent).await;
    let made = made.expect("create");
    let refused = world.cri.start(&made).await;
    refused.expect_err("there is no such program");

    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let url = format!("http://{listen}/metrics");
    let text = reqwest::get(&url).await.expect("ask").text().await;
    let text = text.expect("metrics");
    let exported = exported(&text);
    let mut wrong = Vec::new();
    for query in queries() {
        let problems = problems(&query, &exported);
        wrong.extend(
            problems
                .into_iter()
                .map(|problem| format!("{query}: {problem}")),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    if machine::has_program("promtool").is_ok() && machine::has_program("prometheus").is_ok() {
        let rules = contrib("prometheus/rules.yml");
        run(Command::new("promtool")
            .args(["check", "rules"])
            .arg(&rules));
        let prometheus = Prometheus::scraping(port);
        let until = Instant::now() + Duration::from_secs(30);
        while !prometheus
            .ask("orlop_build_info")
            .is_ok_and(|found| found.contains("orlop"))
        {
            assert!(
                Instant::now() < until,
                "prometheus does not scrape the daemon"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for query in queries() {
            prometheus
                .ask(&query)
                .unwrap_or_else(|error| panic!("{query}: {error}"));
        }
        assert!(prometheus.ask("sum by (").is_err());
    }
    world.finish().await;
}
