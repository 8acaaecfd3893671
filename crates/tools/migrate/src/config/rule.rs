//! What is known of their keys: a table of rules, the same for all of them.

use toml::Value;

use super::line::Line;
use super::plan::{Note, Outcome, Plan};

/// What becomes of a key.
pub(super) enum Rule {
    /// The key of a table of ours, with the value as it is.
    As(&'static str, &'static str),
    /// The same, as a list of one.
    ListOf(&'static str, &'static str),
    /// The key of a table of ours, with the opposite value.
    Not(&'static str, &'static str),
    /// Nothing has to be done: why.
    Needless(&'static str),
    /// There is no counterpart, unless nothing is said: what differs, and the way out.
    Lost(&'static str),
    /// Whoever reads the file as a whole decides.
    Apart,
}

/// Keys by their path, with `/` between and `*` for any name; at the end, for any names. The first one counts.
pub(super) type Rules = &'static [(&'static str, Rule)];

/// Puts one line into the plan, by this path of its key. False: it is for the caller.
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

/// What is empty is no value of ours, but says that nothing was chosen.
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
