//! Suggestions for misspelt keys.

use super::earlier::{Became, EARLIER};
use super::schema::{Config, RUNTIMES};
use super::section::dotted;

/// Returns the message for a key that the table does not have.
pub(super) fn unknown_key(config: &Config, table: &str, own: &[&str], key: &str) -> String {
    if let Some(became) = Became::of(&dotted(table, key), EARLIER) {
        return became.complaint();
    }
    let tables = config.sections().map(|(name, _)| name);
    let candidates = own.iter().copied().chain(
        // At the top level, a misspelt name may be meant as a table.
        tables
            .into_iter()
            .chain([RUNTIMES])
            .filter(|name| table.is_empty() && !name.is_empty()),
    );
    if let Some(near) = nearest(key, candidates) {
        return format!("unknown key, did you mean `{near}`?");
    }
    match home_of(config, key) {
        Some(home) if home != dotted(table, key) => format!("unknown key, did you mean `{home}`?"),
        _ => "unknown key, `orlop config default` lists all".to_owned(),
    }
}

/// Returns the closest candidate, if it is close enough.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Returns the table that has a key with exactly this name.
fn home_of(config: &Config, key: &str) -> Option<String> {
    config
        .sections()
        .into_iter()
        .find(|(_, section)| section.keys().iter().any(|own| own.name == key))
        .map(|(table, _)| dotted(table, key))
}
