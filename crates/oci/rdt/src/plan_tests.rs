//! Tests of files on simulated machines. The shares equal those of containerd or CRI-O, so that a node keeps its
//! groups.

use std::path::Path;

use super::*;

fn cache() -> Cache {
    Cache {
        ids: vec![0, 1],
        full: 0xf_ffff,
        least: 1,
        ..Cache::default()
    }
}

fn machine() -> Machine {
    Machine {
        l3: Some(cache()),
        ..Machine::default()
    }
}

fn with_bandwidth(unit: Unit) -> Machine {
    let bandwidth = Bandwidth {
        ids: vec![0, 1],
        least: 10,
        unit,
    };
    Machine {
        bandwidth: Some(bandwidth),
        ..Machine::default()
    }
}

fn planned(text: &str, machine: &Machine) -> Result<Vec<(String, String)>> {
    let wanted = Partitions::parse(Path::new("rdt.yaml"), text).unwrap();
    let plan = plan(&wanted, machine)?;
    let pair = |group: Group| {
        let text = group.text();
        (group.name, text.trim().replace('\n', " "))
    };
    Ok(plan.groups.into_iter().map(pair).collect())
}

fn told(text: &str, machine: &Machine) -> String {
    planned(text, machine).unwrap_err().to_string()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    expected.iter().map(pair).collect()
}

const SHARED: &str = "\
partitions:
  exclusive:
    l3Allocation: 60%
    classes:
      guaranteed:
  shared:
    l3Allocation: {all: 40%, 1: 30%}
    classes:
      burstable: {l3Allocation: 100%}
      besteffort: {l3Allocation: 50%}
      middle: {l3Allocation: 50-100%}
      exact: {l3Allocation: '0-1'}
      DEFAULT: {l3Allocation: 30%}
";

#[test]
fn classes_have_shares_of_their_partitions() {
    let found = planned(SHARED, &machine()).unwrap();
    let expected = pairs(&[
        ("guaranteed", "L3:0=fff;1=fff"),
        ("burstable", "L3:0=ff000;1=3f000"),
        ("besteffort", "L3:0=f000;1=7000"),
        ("middle", "L3:0=f8000;1=3c000"),
        ("exact", "L3:0=3000;1=3000"),
        ("", "L3:0=7000;1=3000"),
    ]);
    assert_eq!(found, expected);
}

#[test]
fn small_shares_are_rounded_up_to_the_least() {
    let mut machine = machine();
    machine.l3.as_mut().unwrap().least = 4;
    let text = "\
partitions:
  a:
    l3Allocation: 5%
    classes:
      small: {l3Allocation: 1%}
  b:
    l3Allocation: 95%
    classes:
      low: {l3Allocation: 1%}
      high: {l3Allocation: 99-100%}
      middle: {l3Allocation: 50-51%}
";
    let expected = pairs(&[
        ("small", "L3:0=f;1=f"),
        ("low", "L3:0=f0;1=f0"),
        ("high", "L3:0=f0000;1=f0000"),
        ("middle", "L3:0=f00;1=f00"),
    ]);
    let found = planned(text, &machine).unwrap();
    assert_eq!(found[..3], expected[..3]);
    // Extended at the low end.
    assert_eq!(found[3].1, "L3:0=1e00;1=1e00");
}

#[test]
fn code_and_data_have_their_own_where_the_machine_tells_them_apart() {
    let text = "\
partitions:
  p:
    l3Allocation: {all: {unified: 50%, code: 40%, data: 60%}}
    classes:
      a: {l3Allocation: {all: {unified: 100%, code: 50%, data: 100%}}}
      b:
  q:
    l3Allocation: 40%
    classes:
      c:
";
    let mut apart = machine();
    let cache = apart.l3.as_mut().unwrap();
    cache.apart = true;
    cache.ids = vec![0];
    let expected = pairs(&[
        ("a", "L3CODE:0=f L3DATA:0=fff"),
        ("b", "L3CODE:0=ff L3DATA:0=fff"),
        ("c", "L3CODE:0=ff00 L3DATA:0=ff000"),
    ]);
    assert_eq!(planned(text, &apart).unwrap(), expected);
    // 90% in total: all ways are assigned, as whole ways.
    let expected = pairs(&[
        ("a", "L3:0=3ff;1=3ff"),
        ("b", "L3:0=3ff;1=3ff"),
        ("c", "L3:0=3fc00;1=3fc00"),
    ]);
    assert_eq!(planned(text, &machine()).unwrap(), expected);
}

#[test]
fn bandwidth_is_in_the_machines_unit() {
    let text = "\
partitions:
  p:
    mbAllocation: {all: ['50%', 2000MBps], 1: ['12%', 900MBps]}
    classes:
      whole:
      half: {mbAllocation: ['50%', 1000MBps]}
  rest:
    classes:
      free:
";
    let expected = pairs(&[
        ("whole", "MB:0=50;1=12"),
        ("half", "MB:0=25;1=10"),
        ("free", "MB:0=100;1=100"),
    ]);
    let percents = planned(text, &with_bandwidth(Unit::Percent)).unwrap();
    assert_eq!(percents, expected);
    let expected = pairs(&[
        ("whole", "MB:0=2000;1=900"),
        ("half", "MB:0=1000;1=900"),
        ("free", "MB:0=4294967295;1=4294967295"),
    ]);
    let mbps = planned(text, &with_bandwidth(Unit::Mbps)).unwrap();
    assert_eq!(mbps, expected);
    let text = "partitions:\n  p:\n    mbAllocation: [50%]\n    classes: {c: {}}\n";
    let error = told(text, &with_bandwidth(Unit::Mbps));
    assert!(
        error.starts_with("rdt.yaml:3: add a value in MBps"),
        "{error}"
    );
    let error = told(text, &with_bandwidth(Unit::Makers));
    assert!(error.contains("vendor-specific units"), "{error}");
}

#[test]
fn partitions_that_cannot_be_are_told_with_their_lines() {
    let two = |one: &str, other: &str| {
        format!(
            "partitions:\n  a: {{l3Allocation: {one}, classes: {{x: }}}}\n  b: {{l3Allocation: {other}, classes: {{y: }}}}\n"
        )
    };
    for (one, other, line, word) in [
        ("60%", "50%", 3, "110% of L3 cache 0 in total"),
        ("0%", "0%", 3, "0% of L3 cache 0 in total"),
        ("'0-9'", "'8-19'", 3, "\"a\" uses some of these ways"),
        ("'0-9'", "50%", 3, "\"b\" sets a percentage"),
        ("0-50%", "50%", 2, "not a range"),
        ("'0-9'", "'10-20'", 3, "has the ways 0xfffff"),
        ("50%", "", 3, "\"b\" does not set l3Allocation"),
    ] {
        let error = told(&two(one, other), &machine());
        assert!(error.starts_with(&format!("rdt.yaml:{line}: ")), "{error}");
        assert!(error.contains(word), "{one} {other}: {error}");
    }
    let mut narrow = machine();
    let cache = narrow.l3.as_mut().unwrap();
    (cache.full, cache.least) = (0xf, 3);
    let error = told(&two("50%", "50%"), &narrow);
    assert!(error.contains("are left for \"b\""), "{error}");
    let error = told(&two("'0-1'", "'2-3'"), &narrow);
    assert!(error.contains("at least 3 ways"), "{error}");
    let class = |share: &str| {
        format!(
            "partitions:\n  a:\n    l3Allocation: '4-7'\n    classes:\n      x: {{l3Allocation: {share}}}\n"
        )
    };
    for (share, word) in [
        ("'0-4'", "4 ways, from 4 to 7"),
        ("0xf0000000000000", "quotes"),
        ("'60-63'", "4 ways, from 4 to 7"),
        ("0%", "greater than 0%"),
    ] {
        let text = class(share);
        if word == "quotes" {
            assert!(Partitions::parse(Path::new("rdt.yaml"), &text).is_err());
            continue;
        }
        let error = told(&text, &machine());
        assert!(error.starts_with("rdt.yaml:5: "), "{error}");
        assert!(error.contains(word), "{share}: {error}");
    }
}

#[test]
fn what_a_machine_has_not_is_told_unless_it_is_optional() {
    let text = "\
partitions:
  p:
    l2Allocation: 50%
    mbAllocation: [50%]
    classes:
      a: {mbAllocation: [50%]}
";
    let error = told(text, &machine());
    assert!(error.starts_with("rdt.yaml:6: "), "{error}");
    assert!(error.contains("options.mb.optional"), "{error}");
    let text = format!("options: {{mb: {{optional: true}}}}\n{text}");
    let wanted = Partitions::parse(Path::new("rdt.yaml"), &text).unwrap();
    let plan = plan(&wanted, &machine()).unwrap();
    let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes[0].starts_with("rdt.yaml:4: this machine cannot allocate the L2"),
        "{notes:?}"
    );
    assert!(notes[1].starts_with("rdt.yaml:5: "), "{notes:?}");
    assert_eq!(plan.groups[0].text(), "L3:0=fffff;1=fffff\n");
}

#[test]
fn groups_of_others_count_and_their_ways_are_theirs() {
    let mut machine = machine();
    machine.most_groups = Some(4);
    let text = "partitions:\n  p:\n    classes:\n      a:\n      b:\n      DEFAULT:\n      c:\n";
    assert_eq!(planned(text, &machine).unwrap().len(), 4);
    machine.groups = ["other".to_owned(), "a".to_owned()].into();
    let error = told(text, &machine);
    assert!(
        error.starts_with(
            "rdt.yaml:7: too many classes: this machine has no group left for the class \"c\""
        ),
        "{error}"
    );
    machine.most_groups = None;
    machine.l3.as_mut().unwrap().taken = [(1, 0xc_0000)].into();
    // Without a setting for the cache, the kernel gives a new group the free ways.
    assert_eq!(planned(text, &machine).unwrap()[0].1, "");
    let text = "partitions:\n  p:\n    l3Allocation: 100%\n    classes:\n      a: {l3Allocation: 10%}\n      b:\n";
    let error = told(text, &machine);
    assert!(
        error.starts_with("rdt.yaml:6: the ways 0xfffff of L3 cache 1 are not free: 0xc0000"),
        "{error}"
    );
}

/// Random files, with the results of another program for such files (goresctrl, of July 2026, on trees that look like
/// `resctrl`).
#[test]
fn shares_are_those_that_were_measured() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("measured.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 30);
    for case in cases {
        let told = &case["machine"];
        let ids: Vec<u32> = serde_json::from_value(told["ids"].clone()).unwrap();
        let cache = |level: &str| {
            let told = told.get(level)?;
            Some(Cache {
                ids: ids.clone(),
                full: u64::from_str_radix(told["full"].as_str()?, 16).unwrap(),
                least: told["least"].as_u64()? as u32,
                apart: told["apart"].as_bool()?,
                taken: BTreeMap::new(),
            })
        };
        let bandwidth = told.get("mbps").map(|is_mbps| Bandwidth {
            ids: ids.clone(),
            least: 10,
            unit: if *is_mbps == true {
                Unit::Mbps
            } else {
                Unit::Percent
            },
        });
        let machine = Machine {
            l2: cache("l2"),
            l3: cache("l3"),
            bandwidth,
            ..Machine::default()
        };
        let found = planned(&case["file"].to_string(), &machine).unwrap();
        let expected = case["groups"].as_object().unwrap();
        assert_eq!(found.len(), expected.len(), "{case}");
        for (name, text) in found {
            let lines: Vec<String> = serde_json::from_value(expected[&name].clone()).unwrap();
            assert_eq!(text, lines.join(" "), "{name}: {case}");
        }
    }
}
