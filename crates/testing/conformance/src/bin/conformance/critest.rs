//! critest's run, and its report.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use orlop_testkit::Node;
use serde::Deserialize;

use crate::asked::Critest;
use crate::table::Outcome;

/// Runs all of critest on a node.
pub(crate) fn run(critest: &Critest, node: &Node) -> anyhow::Result<Outcome> {
    let endpoint = format!("unix://{}", node.socket().display());
    let report = node.scratch().path("critest.json");
    let log = node.scratch().path("critest.log");
    let output = std::fs::File::create(&log)?;
    let nri = node.plugin_socket();
    // Without one, as on an engine, its specs are skipped.
    let nri = nri.exists().then(|| nri.display().to_string());
    let begin = Instant::now();
    let status = Command::new(&critest.program)
        .args(["-config", "/dev/null", "-runtime-endpoint", &endpoint])
        .args(["-image-endpoint", &endpoint, "-ginkgo.no-color"])
        .arg("-ginkgo.timeout=45m")
        .arg("-ginkgo.json-report")
        .arg(&report)
        .args(nri.iter().flat_map(|socket| ["-nri-socket", socket]))
        .args(&critest.args)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| format!("starting {}", critest.program.display()))?;
    let took = begin.elapsed();
    let text = std::fs::read(&report).with_context(|| {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        format!("critest left no report ({status}); it said:\n{said}")
    })?;
    let mut outcome = outcome(&text).context("reading critest's report")?;
    // One that judged nothing, or ended before it had judged all, has not passed.
    if !status.success() && outcome.failed.is_empty() {
        outcome.failed.push(format!("critest itself ({status})"));
    }
    outcome.took = took;
    Ok(outcome)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    leaf_node_type: String,
    leaf_node_text: String,
    container_hierarchy_texts: Option<Vec<String>>,
    state: String,
    /// Why it failed, or was skipped.
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    message: String,
}

/// Reads the outcome from a Ginkgo report. A spec that neither passed nor was skipped counts as failed.
fn outcome(report: &[u8]) -> anyhow::Result<Outcome> {
    let suites: Vec<Suite> = serde_json::from_slice(report)?;
    let specs = suites.into_iter().filter_map(|suite| suite.spec_reports);
    let mut outcome = Outcome::default();
    for spec in specs.flatten() {
        let mut name = spec.container_hierarchy_texts.unwrap_or_default();
        name.push(spec.leaf_node_text);
        match (spec.leaf_node_type.as_str(), spec.state.as_str()) {
            ("It", "passed") => outcome.passed += 1,
            // Skipped specs without a reason were not selected: benchmarks.
            ("It", "skipped" | "pending") => {
                if let Some(why) = spec.failure {
                    *outcome.skipped.entry(why.message).or_default() += 1;
                }
            }
            // Setup and cleanup of the suite count only if they fail.
            (_, "passed" | "skipped") => {}
            _ => outcome.failed.push(name.join(" ").trim().to_owned()),
        }
    }
    if outcome.passed == 0 && outcome.failed.is_empty() {
        outcome.failed.push("nothing was judged".to_owned());
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(kind: &str, name: &str, state: &str) -> serde_json::Value {
        json!({
            "ContainerHierarchyTexts": ["[k8s.io] Container"], "LeafNodeType": kind,
            "LeafNodeText": name, "State": state,
        })
    }

    fn skipped(why: &str) -> serde_json::Value {
        let mut skipped = spec("It", "waits", "skipped");
        skipped["Failure"] = json!({ "Message": why });
        skipped
    }

    fn of(specs: &[serde_json::Value]) -> Outcome {
        let report = json!([{ "SpecReports": specs }]).to_string();
        outcome(report.as_bytes()).unwrap()
    }

    #[test]
    fn specs_are_counted_by_their_state() {
        let told = of(&[
            spec("It", "runs", "passed"),
            spec("It", "measures", "skipped"),
            skipped("no AppArmor"),
            skipped("no AppArmor"),
            spec("It", "breaks", "panicked"),
            spec("It", "hangs", "timedout"),
            spec("BeforeSuite", "", "passed"),
            spec("AfterSuite", "", "failed"),
        ]);
        assert_eq!(told.passed, 1);
        let skipped: Vec<_> = told.skipped.into_iter().collect();
        assert_eq!(skipped, [("no AppArmor".to_owned(), 2)]);
        let failed = [
            "[k8s.io] Container breaks",
            "[k8s.io] Container hangs",
            "[k8s.io] Container",
        ];
        assert_eq!(told.failed, failed);
    }

    #[test]
    fn a_report_of_nothing_has_not_passed() {
        assert_eq!(of(&[]).failed, ["nothing was judged"]);
        assert_eq!(of(&[skipped("x")]).failed, ["nothing was judged"]);
        assert!(outcome(b"{}").is_err());
    }
}
