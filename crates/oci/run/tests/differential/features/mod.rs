//! Single things that a bundle may ask for.

mod hooks;
mod mounts;
mod namespaces;
mod process;
mod resources;
mod rights;
mod wrong;

use orlop_testkit::Chance;

use crate::bundle::Wish;
use crate::ground::Ground;

/// Asks for something, in a manner that chance decides where there are several.
pub(crate) type Feature = fn(&mut Wish, &mut Chance, &Ground);

/// Features by name.
pub(crate) type Table = &'static [(&'static str, Feature)];

/// All, those that every runtime must refuse included.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Feature)> {
    GOOD.iter()
        .chain(&[wrong::TABLE])
        .flat_map(|table| *table)
        .copied()
}

const GOOD: &[Table] = &[
    process::TABLE,
    rights::TABLE,
    namespaces::TABLE,
    mounts::TABLE,
    resources::TABLE,
    hooks::TABLE,
];

/// Words in the names of those with which nothing runs, or not on all of them: beside them others would not
/// be seen, or not be compared.
const ALONE: &[&str] = &[
    "that fails",
    "too long",
    "that kills",
    "effective without permitted",
    "a link as a target",
    "a device that is there already",
    "a filter that logs",
    "a filter with a default error",
    "times",
    "the machine's devices",
];

/// Several that belong to a seed.
pub(crate) fn together(seed: u64, ground: &Ground) -> Wish {
    let mut chance = Chance::of_seed(seed);
    let features: Vec<_> = GOOD
        .iter()
        .flat_map(|table| *table)
        .filter(|(name, _)| !ALONE.iter().any(|word| name.contains(word)))
        .collect();
    let chosen: Vec<_> = (0..2 + chance.below(5))
        .map(|_| features[chance.below(features.len())])
        .collect();
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    let mut wish = Wish::new(&format!("seed {seed} ({})", names.join(", ")));
    for (_, feature) in chosen {
        feature(&mut wish, &mut chance, ground);
    }
    wish
}

/// One of several.
fn one<'a, T: ?Sized>(chance: &mut Chance, of: &[&'a T]) -> &'a T {
    of[chance.below(of.len())]
}
