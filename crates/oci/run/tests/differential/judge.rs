//! Who is right: ours if what it shows is what one of the others shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::bundle::{Life, Wish};
use crate::ground::Ground;
use crate::life::{self, DEVICES, Outcome};
use crate::runtime::{self, Runtime};
use crate::seen::Facts;

/// A fact of ours that is as with neither of the others, and may be.
struct Otherwise {
    /// How its name begins and ends.
    fact: (&'static str, &'static str),
    /// What it is.
    value: &'static str,
    /// In which bundle; any where this is empty.
    bundle: &'static str,
}

/// As runc 1.3 and later have it, or more closely what was asked for.
const OTHERWISE: &[Otherwise] = &[
    // What hides a directory holds nothing, and is not for executing either (runc 1.3: of one inode).
    otherwise("mounts//", "/of the file system", "nr_inodes=1,rw,size=4k"),
    otherwise(
        "mounts//",
        "/of the file system",
        "gid=100000,nr_inodes=1,rw,size=4k,uid=100000",
    ),
    otherwise("mounts//", "/options", "ro,nosuid,nodev,noexec,relatime"),
    // A limit of no processes (runc 1.4; the specification 1.3).
    otherwise("cgroup/pids.max", "", "1"),
    // What 256 and 512 shares are of the usual ones, these are of the usual weight (runc 1.4).
    otherwise("cgroup/cpu.weight", "", "35"),
    otherwise("cgroup/cpu.weight", "", "59"),
    // Where a hook begins, whatever became of the mount that the bundle is on.
    otherwise("hooks/", "/directory", "the bundle"),
    // What a process.json asks for.
    otherwise("exec/self//proc/self/oom_score_adj", "", "300"),
    with_process("policy", "3"),
    with_process("nice", "3"),
    with_process("priority", "23"),
    // The null device of a command is the container's, not the caller's.
    otherwise("exec/descriptors/", "", "/dev/null 2"),
    // No name of a hierarchy is told in its place.
    otherwise("mounts//sys/fs/cgroup/", "/source", "cgroup"),
    // A file that is made to be mounted on need not be one to execute.
    otherwise("left/root/made/new/file", "", "100644 0:0"),
    // Nothing is left of what was refused.
    otherwise("left/cgroups", "", ""),
    // The specification since 1.2; with runc it is `create` that runs these.
    Otherwise {
        fact: ("end", ""),
        value: "refused by start",
        bundle: "a hook after the start that fails",
    },
    // A hook that fails is told (runc 1.3).
    Otherwise {
        fact: ("delete", ""),
        value: "Some(1)",
        bundle: "a hook after the end that fails",
    },
];

/// What a `process.json` asks for of the scheduler.
const fn with_process(fact: &'static str, value: &'static str) -> Otherwise {
    Otherwise {
        fact: ("exec/stat/", fact),
        value,
        bundle: "exec with another scheduler",
    }
}

const fn otherwise(start: &'static str, end: &'static str, value: &'static str) -> Otherwise {
    Otherwise {
        fact: (start, end),
        value,
        bundle: "",
    }
}

/// Collects what is found in a row of bundles.
pub(crate) struct Judge<'a> {
    ground: &'a Ground,
    subject: Runtime,
    references: Vec<Runtime>,
    only: Option<String>,
    /// What each of the references shows where nothing in particular is asked for, by how it lives.
    plain: Vec<(Life, Vec<(String, Facts)>)>,
    tried: usize,
    ran: usize,
    /// What is wrong, and of which bundles.
    wrong: BTreeMap<String, Vec<String>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(ground: &'a Ground) -> Self {
        let references = runtime::references(ground);
        let plain = [Life::Run, Life::Steps].map(|life| {
            let mut wish = Wish::new("plain");
            wish.life = life;
            let shown = references.iter().map(|runtime| {
                let outcome = life::live(&wish, runtime, ground);
                (runtime.name.clone(), outcome.facts)
            });
            (life, shown.collect())
        });
        Self {
            ground,
            subject: runtime::subject(ground),
            references,
            plain: plain.into(),
            only: std::env::var("ORLOP_DIFFERENTIAL_ONLY").ok(),
            tried: 0,
            ran: 0,
            wrong: BTreeMap::new(),
        }
    }

    /// Runs one bundle everywhere and compares.
    pub(crate) fn try_bundle(&mut self, wish: &Wish) {
        if self
            .only
            .as_ref()
            .is_some_and(|text| !wish.name.contains(text))
        {
            return;
        }
        let known: Vec<(&str, Outcome)> = self
            .references
            .iter()
            .map(|runtime| (&*runtime.name, life::live(wish, runtime, self.ground)))
            .collect();
        let ours = life::live(wish, &self.subject, self.ground);
        self.tried += 1;
        if known.iter().any(|(_, outcome)| outcome.end == "ran") {
            self.ran += 1;
        }
        let plain = self.plain.iter().find(|(life, _)| *life == wish.life);
        let plain = plain.map_or(&[][..], |(_, shown)| shown);
        let found = compare(&wish.name, &ours, &known, plain);
        if std::env::var_os("ORLOP_DIFFERENTIAL_VERBOSE").is_some() {
            for (name, outcome) in &known {
                eprintln!("{}: {name} {}: {}", wish.name, outcome.end, outcome.said);
            }
        }
        for found in found {
            self.wrong.entry(found).or_default().push(wish.name.clone());
        }
    }

    /// Fails with all that was found.
    pub(crate) fn verdict(self) {
        eprintln!("{} bundles, {} of which ran", self.tried, self.ran);
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, bundles)| std::cmp::Reverse(bundles.len()));
        let mut text = String::new();
        for (what, bundles) in &wrong {
            let (first, count) = (&bundles[..bundles.len().min(3)], bundles.len());
            let _ = writeln!(text, "{what}\n    in {count}: {}", first.join(", "));
        }
        assert!(
            wrong.is_empty(),
            "{} facts are those of neither runc nor crun:\n{text}",
            wrong.len()
        );
        // Bundles that all refuse say little.
        assert!(
            self.only.is_some() || self.ran * 10 >= self.tried * 7,
            "of {} bundles only {} run anywhere",
            self.tried,
            self.ran
        );
    }
}

/// What differs from all of them. Of one that refuses the bundle, what is its own way elsewhere may be ours.
fn compare(
    bundle: &str,
    ours: &Outcome,
    known: &[(&str, Outcome)],
    plain: &[(String, Facts)],
) -> Vec<String> {
    let mut found = Vec::new();
    if is_known(bundle, "end", Some(&ours.end)) {
        return found;
    }
    // What the others cannot do ours may, unless nobody should.
    let is_more = ours.end == "ran" && known.iter().all(|(_, theirs)| theirs.end != "ran");
    if is_more && !bundle.starts_with("wrong") {
        return found;
    }
    if known.iter().all(|(_, theirs)| theirs.end != ours.end) {
        let ends: Vec<String> = known
            .iter()
            .map(|(name, theirs)| format!("{name} {} {:?}", theirs.end, theirs.said))
            .collect();
        let (end, said) = (&ours.end, &ours.said);
        found.push(format!("ours {end} {said:?}; {}", ends.join("; ")));
        return found;
    }
    // What was refused has seen nothing; what is left of it counts.
    let alike: Vec<(&str, &Facts)> = known
        .iter()
        .filter(|(_, theirs)| theirs.end == ours.end)
        .map(|(name, theirs)| (*name, &theirs.facts))
        .collect();
    let absent: Vec<&Facts> = plain
        .iter()
        .filter(|(name, _)| alike.iter().all(|(present, _)| present != name))
        .map(|(_, facts)| facts)
        .collect();
    let own_way = |name: &String, value: Option<&String>| {
        let is_taste = plain
            .windows(2)
            .any(|two| two[0].1.get(name) != two[1].1.get(name));
        is_taste && absent.iter().any(|facts| facts.get(name) == value)
    };
    let names: BTreeSet<&String> = alike
        .iter()
        .flat_map(|(_, facts)| facts.keys())
        .chain(ours.facts.keys())
        .collect();
    for name in names {
        // Of what was refused that alone counts which is left of it.
        if ours.end != "ran" && !name.starts_with("left/") {
            continue;
        }
        let value = ours.facts.get(name);
        if name == DEVICES && value.is_some_and(String::is_empty) {
            continue;
        }
        // Whoever else does that, nobody may.
        let may_be_like = name != DEVICES;
        if may_be_like && alike.iter().any(|(_, facts)| facts.get(name) == value)
            || own_way(name, value)
            || is_known(bundle, name, value)
        {
            continue;
        }
        let theirs: BTreeMap<&str, Option<&String>> = alike
            .iter()
            .map(|(runtime, facts)| (*runtime, facts.get(name)))
            .collect();
        found.push(format!("{name} is {value:?}, with the others {theirs:?}"));
    }
    found
}

fn is_known(bundle: &str, fact: &str, value: Option<&String>) -> bool {
    let fact = fact.strip_prefix("exec/").unwrap_or(fact);
    OTHERWISE.iter().any(|otherwise| {
        let (start, end) = otherwise.fact;
        let start = start.strip_prefix("exec/").unwrap_or(start);
        fact.starts_with(start)
            && fact.ends_with(end)
            && value.is_some_and(|value| value == otherwise.value)
            && bundle.contains(otherwise.bundle)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(end: &str, facts: &[(&str, &str)]) -> Outcome {
        let facts = facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Outcome {
            end: end.to_owned(),
            said: String::new(),
            facts: facts.collect(),
        }
    }

    #[test]
    fn what_is_as_with_one_of_them_is_right_and_all_else_is_found() {
        let known = [
            ("runc", outcome("ran", &[("a", "1"), ("b", "1")])),
            ("crun", outcome("ran", &[("a", "2")])),
        ];
        let found = |ours: &Outcome| compare("", ours, &known, &[]).len();
        assert_eq!(found(&outcome("ran", &[("a", "2"), ("b", "1")])), 0);
        assert_eq!(found(&outcome("ran", &[("a", "1")])), 0);
        assert_eq!(found(&outcome("ran", &[("a", "3")])), 1);
        assert_eq!(found(&outcome("ran", &[("a", "1"), ("c", "1")])), 1);
        assert_eq!(found(&outcome("refused by run", &[])), 1);
    }

    #[test]
    fn what_is_the_way_of_one_that_refuses_is_right_and_what_was_asked_for_is_not() {
        let facts = |facts: &[(&str, &str)]| outcome("ran", facts).facts;
        let plain = [
            (
                "runc".to_owned(),
                facts(&[("taste", "1"), ("asked", "off")]),
            ),
            (
                "crun".to_owned(),
                facts(&[("taste", "2"), ("asked", "off")]),
            ),
        ];
        let known = [
            ("runc", outcome("refused by run", &[])),
            ("crun", outcome("ran", &[("taste", "2"), ("asked", "on")])),
        ];
        let found = |facts| compare("", &outcome("ran", facts), &known, &plain).len();
        assert_eq!(found(&[("taste", "1"), ("asked", "on")]), 0);
        assert_eq!(found(&[("taste", "1"), ("asked", "off")]), 1);
        assert_eq!(found(&[("taste", "3"), ("asked", "on")]), 1);
    }
}
