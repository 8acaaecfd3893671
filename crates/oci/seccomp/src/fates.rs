//! The action for each call of an architecture, before it is compiled to comparisons.
//!
//! Several rules for one call are combined as libseccomp does:
//!
//! - a rule with the default action is left out;
//! - a rule without conditions takes precedence over all others, and the first of several over later ones;
//! - of rules with conditions the first match decides, in an order independent of that of the profile
//!   ([`Rule::precedence`]);
//! - two conditions on one argument in one rule are alternatives, as runc makes them;
//! - on narrow architectures the lower half of an argument and of a value is compared.

use std::cmp::Ordering;

use orlop_oci_types::{Seccomp, SeccompArg, SeccompOperator};

use crate::calls::{self, Call, Multiplexed};
use crate::{Arch, Error, action};

/// The actions for the calls of one architecture.
pub(crate) struct Fates {
    pub(crate) arch: Arch,
    /// The action for each number, ordered by number; others have the default.
    pub(crate) calls: Vec<(u32, Fate)>,
    /// The largest number that the profile names.
    pub(crate) largest: Option<u32>,
}

/// The action for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Always(u32),
    /// The first matching rule decides; if none matches, the default applies.
    Asked(Vec<Rule>),
}

/// A return value with conditions that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Ordered by argument, at most one for each.
    pub(crate) tests: Vec<Test>,
    pub(crate) answer: u32,
}

/// A condition on an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) index: u8,
    pub(crate) operator: SeccompOperator,
    pub(crate) value: u64,
    /// All ones unless the comparison is masked.
    pub(crate) mask: u64,
}

/// The rules of a profile, by the calls that they name.
pub(crate) struct Named<'a> {
    calls: Vec<(Call, Option<usize>)>,
    rules: Vec<(u32, Vec<Vec<Test>>)>,
    /// Names that no architecture has.
    pub(crate) unknown: Vec<&'a str>,
}

impl<'a> Named<'a> {
    /// Reads the rules of a profile with this default.
    pub(crate) fn read(profile: &'a Seccomp, default: u32) -> Result<Self, Error> {
        let names = profile.syscalls.iter().map(|rule| rule.names.len()).sum();
        let mut named = Self {
            calls: Vec::with_capacity(names),
            rules: Vec::with_capacity(profile.syscalls.len()),
            unknown: Vec::new(),
        };
        for rule in &profile.syscalls {
            let answer = action::answer(rule.action, rule.errno_ret);
            let place = (answer != default).then_some(named.rules.len());
            let mut known = None;
            for name in &rule.names {
                if name.is_empty() {
                    return Err(Error::EmptyName);
                }
                if name == "write" && answer == action::NOTIFY {
                    return Err(Error::NotifyWrite);
                }
                if let Some(call) = calls::find(name) {
                    named.calls.push((call, place));
                    known = Some(call.name());
                } else {
                    named.unknown.push(name);
                }
            }
            if place.is_some() {
                let alternatives =
                    known.map_or(Ok(Vec::new()), |call| alternatives(call, &rule.args))?;
                named.rules.push((answer, alternatives));
            }
        }
        Ok(named)
    }

    /// Evaluates the rules for an architecture.
    pub(crate) fn on(&self, arch: Arch) -> Result<Fates, Error> {
        let multiplexes = arch.multiplexes();
        let mut largest = None;
        let mut found = Vec::with_capacity(self.calls.len() + 32);
        for (call, rule) in &self.calls {
            let number = arch.number(*call);
            let multiplexed = call.multiplexed().filter(|_| multiplexes);
            if multiplexed.is_none() {
                largest = largest.max(number);
            }
            let Some(rule) = *rule else { continue };
            if let Some((stands_for, which)) = multiplexed.map(Multiplexed::stands_for)
                && let Some(number) = calls::find(stands_for).and_then(|call| arch.number(call))
            {
                found.push(Found {
                    number,
                    rule,
                    call: *call,
                    which: Some(which),
                });
            }
            if let Some(number) = number {
                found.push(Found {
                    number,
                    rule,
                    call: *call,
                    which: None,
                });
            }
        }
        let mut order: Vec<_> = (found.iter().zip(0_u32..))
            .map(|(call, place)| (call.number, place))
            .collect();
        order.sort_unstable();
        let calls = order
            .chunk_by(|a, b| a.0 == b.0)
            .map(|same| {
                let calls = same.iter().map(|(_, place)| &found[*place as usize]);
                Ok((same[0].0, self.fate(calls, arch)?))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Fates {
            arch,
            calls,
            largest,
        })
    }

    /// Returns the action for a number that these rules name.
    fn fate<'f>(&self, same: impl Iterator<Item = &'f Found>, arch: Arch) -> Result<Fate, Error> {
        let mut rules: Vec<Rule> = Vec::new();
        for call in same {
            let (answer, alternatives) = &self.rules[call.rule];
            for tests in alternatives {
                let rule = Rule {
                    tests: on_arguments(tests, call.which, arch),
                    answer: *answer,
                };
                if rule.tests.is_empty() {
                    return Ok(Fate::Always(rule.answer));
                }
                match rules.iter().find(|other| other.tests == rule.tests) {
                    None => rules.push(rule),
                    Some(other) if other.answer == rule.answer => {}
                    Some(_) => return Err(Error::Contradiction(call.call.name())),
                }
            }
        }
        rules.sort_by(Rule::precedence);
        Ok(Fate::Asked(rules))
    }
}

/// A call that a rule names.
struct Found {
    number: u32,
    rule: usize,
    call: Call,
    /// If the number multiplexes several calls: the first argument that selects this one.
    which: Option<u64>,
}

impl Rule {
    /// Returns the order of two rules: later arguments first, then equalities before upper bounds before lower ones,
    /// then narrower conditions, then fewer conditions.
    fn precedence(&self, other: &Self) -> Ordering {
        let pairs = self.tests.iter().zip(&other.tests);
        pairs
            .map(|(own, others)| own.precedence(*others))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.tests.len().cmp(&other.tests.len()))
    }
}

impl Test {
    fn precedence(self, other: Self) -> Ordering {
        let by_value = if self.class() == UPPER_BOUND {
            self.value.cmp(&other.value)
        } else {
            other.value.cmp(&self.value)
        };
        (other.index.cmp(&self.index))
            .then(other.class().cmp(&self.class()))
            .then(by_value)
            .then(other.mask.cmp(&self.mask))
            .then((self.operator as u8).cmp(&(other.operator as u8)))
    }

    fn class(self) -> u8 {
        match self.operator {
            SeccompOperator::Equal | SeccompOperator::NotEqual | SeccompOperator::MaskedEqual => 3,
            SeccompOperator::Less | SeccompOperator::LessOrEqual => UPPER_BOUND,
            SeccompOperator::Greater | SeccompOperator::GreaterOrEqual => 1,
        }
    }
}

const UPPER_BOUND: u8 = 2;

/// Returns the alternative sets of conditions of a rule, of which one must hold.
fn alternatives(call: &str, args: &[SeccompArg]) -> Result<Vec<Vec<Test>>, Error> {
    let mut tests = Vec::with_capacity(args.len());
    for arg in args {
        if arg.index >= ARGUMENTS {
            return Err(Error::NoSuchArgument {
                call: call.to_owned(),
                index: arg.index,
            });
        }
        let (value, mask) = if arg.op == SeccompOperator::MaskedEqual {
            (arg.value_two, arg.value)
        } else {
            (arg.value, u64::MAX)
        };
        tests.push(Test {
            index: arg.index as u8,
            operator: arg.op,
            value: value & mask,
            mask,
        });
    }
    tests.sort_by_key(|test| test.index);
    if tests.windows(2).any(|two| two[0].index == two[1].index) {
        return Ok(tests.into_iter().map(|test| vec![test]).collect());
    }
    Ok(vec![tests])
}

/// The maximum number of arguments of a call.
const ARGUMENTS: u32 = 6;

/// Adapts conditions to an architecture, and to one of several calls that share a number.
fn on_arguments(tests: &[Test], which: Option<u64>, arch: Arch) -> Vec<Test> {
    let bits = if arch.is_wide() {
        u64::MAX
    } else {
        u32::MAX.into()
    };
    let first = which.map(|value| Test {
        index: 0,
        operator: SeccompOperator::Equal,
        value,
        mask: bits,
    });
    let rest = (tests.iter().copied())
        .filter(|test| which.is_none() || test.index != 0)
        .map(|test| Test {
            value: test.value & bits,
            mask: test.mask & bits,
            ..test
        })
        .filter(|test| test.mask != 0);
    first.into_iter().chain(rest).collect()
}
