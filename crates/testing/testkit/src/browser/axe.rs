//! What axe-core finds wrong with a page for those who do not see it, or not well.

use std::fmt;

use serde_json::Value;

use super::page::Browser;
use crate::machine;

/// How much it hinders, as axe grades it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// A nuisance.
    Minor,
    /// Some are hindered.
    Moderate,
    /// Some are kept from part of the page.
    Serious,
    /// Some are kept out.
    Critical,
}

/// A rule that the page breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// axe's name of the rule (`image-alt`).
    pub rule: String,
    /// How much it hinders.
    pub impact: Impact,
    /// What the rule says.
    pub help: String,
    /// Where: a selector, and why.
    pub nodes: Vec<String>,
}

impl Violation {
    /// Whether it keeps anybody from anything.
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
    /// All that axe finds in the page as it is now, its frames left out.
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
