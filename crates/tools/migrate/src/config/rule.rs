//! The rule tables that map the keys of other runtimes.

use toml::Value;

use super::line::Line;
use super::plan::{Note, Outcome, Plan};

/// Mapping of a key.
pub(super) enum Rule {
    /// Table and key of orlop, with the same value.
    As(&'static str, &'static str),
    /// The same, as a list with one element.
    ListOf(&'static str, &'static str),
    /// Table and key of orlop, with the negated value.
    Not(&'static str, &'static str),
    /// Nothing needs to be done, for this reason.
    Needless(&'static str),
    /// There is no equivalent, unless the value is empty: the difference, and an alternative.
    Lost(&'static str),
    /// Handled by the code that reads the whole file.
    Apart,
}

/// Key paths with `/` as separator. `*` matches one name, at the end any names. The first match counts.
pub(super) type Rules = &'static [(&'static str, Rule)];

/// Adds a line to the plan by the path of its key. Returns false if the caller must handle it.
pub(super) fn apply(plan: &mut Plan, rules: Rules, path: &[&str], line: &Line) -> bool {
    let rule = rules.iter().find(|(pattern, _)| fits(pattern, path));
    let outcome = match rule.map(|(_, rule)| rule) {
        Some(Rule::Apart) => return false,
        Some(Rule::As(table, key)) => take(plan, (table, key), line, line.value.clone()),
        Some(Rule::ListOf(table, key)) => take(
            plan,
            (table, key),
            line,
            Value::Array(vec![line.value.clone()]),
        ),
        Some(Rule::Not(table, key)) => match line.value {
            Value::Boolean(is_set) => plan.set(table, key, Value::Boolean(!is_set)),
            _ => unfit(),
        },
        Some(Rule::Needless(why)) => Outcome::Needless((*why).to_owned()),
        Some(Rule::Lost(_)) | None if line.is_nothing() => not_said(),
        Some(Rule::Lost(what)) => Outcome::Lost((*what).to_owned()),
        None => Outcome::Lost("unknown key; check whether the node needs it".to_owned()),
    };
    note(plan, line, outcome);
    true
}

pub(super) fn note(plan: &mut Plan, line: &Line, outcome: Outcome) {
    plan.notes.push(Note {
        file: line.file.clone(),
        line: line.line,
        key: line.key(),
        value: line.shown(),
        outcome,
    });
}

/// An empty value means that nothing was chosen, and is not taken over.
fn take(plan: &mut Plan, (table, key): (&str, &str), line: &Line, value: Value) -> Outcome {
    let is_empty = matches!(&line.value, Value::String(text) if text.is_empty());
    if is_empty {
        return not_said();
    }
    plan.set(table, key, value)
}

pub(super) fn not_said() -> Outcome {
    Outcome::Needless("the setting is empty".to_owned())
}

pub(super) fn unfit() -> Outcome {
    Outcome::Lost("the value has an unsupported type; set the key manually".to_owned())
}

fn fits(pattern: &str, path: &[&str]) -> bool {
    let mut path = path.iter();
    let mut parts = pattern.split('/').peekable();
    while let Some(part) = parts.next() {
        let Some(name) = path.next() else {
            return false;
        };
        if part == "*" && parts.peek().is_none() {
            return true;
        }
        if part != "*" && part != *name {
            return false;
        }
    }
    path.next().is_none()
}
