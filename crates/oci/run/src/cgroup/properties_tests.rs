//! Tests of the properties that are sent to systemd.

use orlop_oci_types::{Cpu, Memory, Pids};

use super::*;

fn told(properties: &[Property]) -> Vec<(String, Value)> {
    let each = properties.iter();
    each.map(|it| (it.name().to_owned(), it.value().clone()))
        .collect()
}

#[test]
fn annotations_are_properties_of_the_kind_that_is_written() {
    let of = |name: &str, text: &str| {
        let annotations = [(format!("{PREFIX}{name}"), text.to_owned())];
        of_annotations(&annotations.into()).map(|all| told(&all))
    };
    for (name, text, property, value) in [
        (
            "TimeoutStopUSec",
            "uint64 123456789",
            "TimeoutStopUSec",
            Value::Number(123_456_789),
        ),
        (
            "TimeoutStopSec",
            "uint64 5",
            "TimeoutStopUSec",
            Value::Number(5_000_000),
        ),
        (
            "TimeoutStopSec",
            "1.5",
            "TimeoutStopUSec",
            Value::Number(1_500_000),
        ),
        (
            "CollectMode",
            "'inactive-or-failed'",
            "CollectMode",
            Value::Text("inactive-or-failed".into()),
        ),
        (
            "After",
            "['foo.service', \"b\\\"r\"]",
            "After",
            Value::Texts(vec!["foo.service".into(), "b\"r".into()]),
        ),
        ("SendSIGHUP", "true", "SendSIGHUP", Value::Bool(true)),
        ("KillSignal", "10", "KillSignal", Value::SignedShort(10)),
        ("Sec", "'x'", "Sec", Value::Text("x".into())),
    ] {
        assert_eq!(
            of(name, text).unwrap(),
            [(property.to_owned(), value)],
            "{name}={text}"
        );
    }
    for (name, text, said) in [
        ("Ab", "true", "name incorrect: too short"),
        ("KillMode1", "true", "contains non-alphabetic character"),
        ("KillMode", "'x", "the closing ' is missing"),
        ("KillMode", "x", "is not a number, a quoted string"),
        ("KillMode", "'x' y", "unexpected \"y\" after the value"),
        ("After", "['x'", "the closing ] is missing"),
        ("TimeoutStopSec", "'5'", "not a number"),
        (
            "LogRateLimitBurst",
            "5000000000",
            "write the type before the number",
        ),
        ("LogRateLimitBurst", "uint32 -1", "out of range for uint32"),
    ] {
        let error = of(name, text).unwrap_err().to_string();
        assert!(error.contains(said), "{name}={text}: {error}");
    }
    let other = [("io.kubernetes.cri".to_owned(), "x".to_owned())];
    assert!(of_annotations(&other.into()).unwrap().is_empty());
}

#[test]
fn limits_are_told_in_the_words_of_the_version() {
    let resources = Resources {
        memory: Some(Memory {
            limit: Some(100),
            swap: Some(300),
            reservation: Some(50),
            ..Memory::default()
        }),
        cpu: Some(Cpu {
            shares: Some(1024),
            idle: Some(1),
            ..Cpu::default()
        }),
        pids: Some(Pids { limit: Some(0) }),
        unified: [
            ("memory.high".to_owned(), "70".to_owned()),
            ("cpu.max".into(), "5 10".into()),
        ]
        .into(),
        ..Resources::default()
    };
    let number = |name: &str, value| (name.to_owned(), Value::Number(value));
    assert_eq!(
        told(&of_resources(&resources, 2).unwrap()),
        [
            number("MemoryMax", 100),
            number("TasksMax", 1),
            number("CPUWeight", 0),
            number("MemoryLow", 50),
            number("MemorySwapMax", 200),
            number("CPUQuotaPerSecUSec", 500_000),
            number("MemoryHigh", 70),
        ]
    );
    assert_eq!(
        told(&of_resources(&resources, 1).unwrap()),
        [
            number("TasksMax", 1),
            number("MemoryLimit", 100),
            number("CPUShares", 1024)
        ]
    );
}

#[test]
fn systemd_is_told_which_devices() {
    let text = |name: &str, value: &str| (name.to_owned(), Value::Text(value.to_owned()));
    let pairs = |list: &[(&str, &str)]| {
        let list = list
            .iter()
            .map(|(one, other)| ((*one).to_owned(), (*other).to_owned()));
        ("DeviceAllow".to_owned(), Value::Pairs(list.collect()))
    };
    let rules = Rules::of(&[], &[]).unwrap();
    let all = told(&of_devices(&rules));
    assert_eq!(all[..2], [pairs(&[]), text("DevicePolicy", "strict")]);
    let Value::Pairs(list) = &all[2].1 else {
        panic!("{all:?}")
    };
    for wanted in [
        ("char-*", "m"),
        ("char-136", "rwm"),
        ("/dev/char/1:3", "rwm"),
    ] {
        assert!(
            list.iter()
                .any(|(one, other)| (one.as_str(), other.as_str()) == wanted),
            "{list:?}"
        );
    }
    let all = orlop_oci_types::DeviceRule {
        allow: true,
        access: "rwm".into(),
        ..Default::default()
    };
    let rules = Rules::of(&[all], &[]).unwrap();
    assert_eq!(
        told(&of_devices(&rules)),
        [pairs(&[]), text("DevicePolicy", "auto")]
    );
}

#[test]
fn a_quota_is_written_as_systemd_will() {
    let of = |quota, period| {
        let cpu = Cpu {
            quota: Some(quota),
            period,
            ..Cpu::default()
        };
        let rounded = as_systemd_rounds(&Resources {
            cpu: Some(cpu),
            ..Resources::default()
        });
        rounded.cpu.and_then(|it| it.quota)
    };
    assert_eq!(of(25_001, Some(100_000)), Some(26_000));
    assert_eq!(of(25_000, None), Some(25_000));
    assert_eq!(of(-1, None), Some(-1));
}
