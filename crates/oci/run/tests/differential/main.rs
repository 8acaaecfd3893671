//! The same bundles on runc, crun and orlop-run: what a process inside sees, what the machine's control
//! groups say and what the runtime itself tells must be what it is with one of the other two.
//!
//! Where runc and crun differ it is a matter of taste, and ours may be either's. `ORLOP_DIFFERENTIAL=N`
//! tries so many bundles of features that chance puts together, from `ORLOP_DIFFERENTIAL_SEED` on;
//! `ORLOP_DIFFERENTIAL_ONLY=TEXT` those alone whose name has that text. `ORLOP_RUN=PROGRAM` judges another
//! runtime, and `ORLOP_DIFFERENTIAL_MORE=PROGRAM` is one more that ours may be like.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod bundle;
mod cgroups;
mod console;
mod features;
mod ground;
mod judge;
mod life;
mod runtime;
mod seen;

use bundle::Wish;
use ground::Ground;
use judge::Judge;
use orlop_testkit::{Chance, machine, skip_unless};

/// Bundles of features together, unless somebody wants more.
const TOGETHER: u64 = 70;

#[test]
fn each_feature_alone_is_as_with_runc_or_crun() {
    skip_unless!(runtime::can_compare());
    let ground = Ground::new();
    let mut judge = Judge::new(&ground);
    assert!(features::all().count() >= 170);
    for (name, feature) in features::all() {
        let mut wish = Wish::new(name);
        feature(&mut wish, &mut Chance::of_seed(0), &ground);
        judge.try_bundle(&wish);
    }
    judge.verdict();
}

#[test]
fn features_together_are_as_with_runc_or_crun() {
    skip_unless!(runtime::can_compare());
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let count = number("ORLOP_DIFFERENTIAL").unwrap_or(TOGETHER / u64::from(machine::patience()));
    let first = number("ORLOP_DIFFERENTIAL_SEED").unwrap_or(1);
    let ground = Ground::new();
    let mut judge = Judge::new(&ground);
    for seed in first..first + count {
        judge.try_bundle(&features::together(seed, &ground));
    }
    judge.verdict();
}
