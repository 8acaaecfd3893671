//! Accessibility checks of a page with axe-core.

use std::fmt;

use serde_json::Value;

use super::page::Browser;
use crate::machine;

/// Severity of a violation, as graded by axe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// A nuisance.
    Minor,
    /// Some users are hindered.
    Moderate,
    /// Some users cannot use part of the page.
    Serious,
    /// Some users cannot use the page.
    Critical,
}

/// A violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// axe's name of the rule (`image-alt`).
    pub rule: String,
    /// Severity.
    pub impact: Impact,
    /// Description of the rule.
    pub help: String,
    /// Selectors of the elements, with the reasons.
    pub nodes: Vec<String>,
}

impl Violation {
    /// Returns whether it prevents anybody from using something.
    pub fn is_serious(&self) -> bool {
        self.impact >= Impact::Serious
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.impact, self.rule, self.help)?;
        self.nodes
            .iter()
            .try_for_each(|node| write!(f, "\n  {node}"))
    }
}

const RUN: &str = "
    const found = await axe.run(document, { resultTypes: ['violations'] });
    return found.violations.map(it => ({
        rule: it.id,
        impact: it.impact,
        help: it.help,
        nodes: it.nodes.map(node => node.target.flat().join(' ') + ': ' + node.failureSummary),
    }));
";

impl Browser {
    /// Returns all violations in the current page, without its frames.
    pub async fn axe(&self) -> Vec<Violation> {
        let is_there = self.script("return typeof axe === 'object'", &[]).await;
        if is_there != true {
            let path = machine::axe().unwrap_or_else(|e| panic!("{e}"));
            let axe = std::fs::read_to_string(&path);
            let axe = axe.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            self.script(&axe, &[]).await;
        }
        let run = format!("return (async () => {{ {RUN} }})()");
        let found = self.script(&run, &[]).await;
        let all = found.as_array();
        let all = all.unwrap_or_else(|| panic!("axe says no list: {found}"));
        all.iter().map(violation).collect()
    }
}

fn violation(said: &Value) -> Violation {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = said["nodes"].as_array().map(Vec::as_slice);
    Violation {
        rule: text(&said["rule"]),
        impact: match said["impact"].as_str() {
            Some("minor") => Impact::Minor,
            Some("moderate") => Impact::Moderate,
            Some("serious") => Impact::Serious,
            Some("critical") => Impact::Critical,
            other => panic!("axe grades by {other:?}: {said}"),
        },
        help: text(&said["help"]),
        nodes: nodes.unwrap_or_default().iter().map(text).collect(),
    }
}
