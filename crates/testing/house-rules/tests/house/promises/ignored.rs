//! Tests with `#[ignore]`, each of which must be started as a process by another test.

use super::programs::Test;

/// Returns the ignored tests that no source file of their package starts.
pub fn not_started(tests: &[Test], sources_of: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let is_started = |test: &&Test| {
        let command = format!(" --exact {} ", test.path);
        let mut sources = sources_of(&test.package).into_iter();
        sources.any(|text| {
            let words = arguments(&text);
            words.contains(&command) && words.contains(" --ignored ")
        })
    };
    let ignored = tests.iter().filter(|test| test.ignored);
    let lost = ignored.filter(|test| !is_started(test));
    lost.map(Test::identity).collect()
}

/// Removes the separators of command arguments from a text.
fn arguments(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == '"');
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn an_ignored_test_is_started_by_another() {
    let mut tests = super::names::sample();
    tests[0].ignored = true;
    let lost = |package: &str, text: &str| {
        let sources = |of: &str| Vec::from_iter((of == package).then(|| text.to_owned()));
        not_started(&tests, sources)
    };
    for started in [
        r#".args(["--exact", "pods::a_pod_is_ready", "--ignored", "--nocapture"])"#,
        r#""exec {} --exact pods::a_pod_is_ready --ignored --nocapture\n""#,
    ] {
        assert_eq!(lost("orlop", started), Vec::<String>::new());
        assert_eq!(
            lost("orlop-keeper", started),
            ["orlop::cri::pods::a_pod_is_ready"]
        );
    }
    for other in [
        r#".args(["--exact", "pods::a_pod_is_ready", "--nocapture"])"#,
        r#".args(["--exact", "pods::a_pod", "--ignored", "--nocapture"])"#,
    ] {
        assert_eq!(lost("orlop", other), ["orlop::cri::pods::a_pod_is_ready"]);
    }
}
