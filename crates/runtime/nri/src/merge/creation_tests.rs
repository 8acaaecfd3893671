//! Tests that merge the changes of several plugins to one container.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::error::Error;
use crate::v1alpha1::{
    CdiDevice, ContainerUpdate, Hook, LinuxDevice, LinuxMemory, LinuxResources, Mount, OptionalInt,
    OptionalInt64, OptionalString,
};

fn creation() -> Creation {
    let container = Container {
        id: "c".into(),
        annotations: BTreeMap::from([("own".into(), "1".into())]),
        env: vec!["A=1".into(), "B=2".into()],
        args: vec!["sleep".into()],
        mounts: vec![mount("/own"), mount("/other")],
        ..Container::default()
    };
    Creation::new(PodSandbox::default(), container)
}

fn mount(destination: &str) -> Mount {
    Mount {
        destination: destination.into(),
        ..Mount::default()
    }
}

fn variable(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: value.into(),
    }
}

fn answer(adjust: ContainerAdjustment) -> CreateContainerResponse {
    CreateContainerResponse {
        adjust: Some(adjust),
        ..CreateContainerResponse::default()
    }
}

fn of_linux(linux: LinuxContainerAdjustment) -> CreateContainerResponse {
    answer(ContainerAdjustment {
        linux: Some(linux),
        ..ContainerAdjustment::default()
    })
}

fn mounts(list: &[&str]) -> CreateContainerResponse {
    answer(ContainerAdjustment {
        mounts: list.iter().map(|one| mount(one)).collect(),
        ..ContainerAdjustment::default()
    })
}

fn env(list: &[(&str, &str)]) -> CreateContainerResponse {
    answer(ContainerAdjustment {
        env: list
            .iter()
            .map(|(key, value)| variable(key, value))
            .collect(),
        ..ContainerAdjustment::default()
    })
}

fn annotations(list: &[(&str, &str)]) -> CreateContainerResponse {
    let list = list.iter();
    answer(ContainerAdjustment {
        annotations: list.map(|&(k, v)| (k.into(), v.into())).collect(),
        ..ContainerAdjustment::default()
    })
}

fn destinations(list: &[Mount]) -> Vec<&str> {
    list.iter().map(|one| one.destination.as_str()).collect()
}

fn conflict(result: Result<()>) -> String {
    match result.unwrap_err() {
        error @ Error::Conflict { .. } => error.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn later_plugins_see_what_earlier_ones_changed() {
    let mut creation = creation();
    creation.apply("00-a", mounts(&["/new", "-/own"])).unwrap();
    creation
        .apply("00-a", env(&[("-A", ""), ("C", "3")]))
        .unwrap();
    let seen = creation.request().container.clone().unwrap();
    assert_eq!(destinations(&seen.mounts), ["/other", "/new"]);
    assert_eq!(seen.env, ["B=2", "C=3"]);
    let (adjust, _, _) = creation.finish();
    assert_eq!(destinations(&adjust.mounts), ["-/own", "/new"]);
    assert_eq!(adjust.env, [variable("-A", ""), variable("C", "3")]);
}

#[test]
fn two_plugins_may_not_set_the_same() {
    let mut creation = creation();
    creation.apply("00-a", env(&[("X", "1")])).unwrap();
    let text = conflict(creation.apply("01-b", env(&[("X", "1")])));
    orlop_testkit::assert_contains!(text, "\"01-b\" and \"00-a\"", "Env X");
    creation.apply("00-a", mounts(&["/m"])).unwrap();
    conflict(creation.apply("01-b", mounts(&["/m"])));
    creation.apply("00-a", annotations(&[("k", "1")])).unwrap();
    conflict(creation.apply("01-b", annotations(&[("k", "2")])));
    let device = |name: &str| {
        answer(ContainerAdjustment {
            cdi_devices: vec![CdiDevice { name: name.into() }],
            ..ContainerAdjustment::default()
        })
    };
    creation.apply("00-a", device("v.com/c=1")).unwrap();
    creation.apply("01-b", device("v.com/c=2")).unwrap();
    conflict(creation.apply("01-b", device("v.com/c=1")));
    let limit = |type_: &str| {
        answer(ContainerAdjustment {
            rlimits: vec![PosixRlimit {
                r#type: type_.into(),
                hard: 1,
                soft: 1,
            }],
            ..ContainerAdjustment::default()
        })
    };
    creation.apply("00-a", limit("RLIMIT_CORE")).unwrap();
    conflict(creation.apply("01-b", limit("RLIMIT_CORE")));
}

#[test]
fn what_is_removed_first_may_be_set_anew_by_the_same_plugin() {
    let mut creation = creation();
    creation.apply("00-a", env(&[("X", "1")])).unwrap();
    creation
        .apply("01-b", env(&[("-X", ""), ("X", "2")]))
        .unwrap();
    conflict(creation.apply("02-c", env(&[("X", "3")])));
    creation.apply("00-a", annotations(&[("k", "1")])).unwrap();
    creation
        .apply("01-b", annotations(&[("-k", ""), ("k", "2")]))
        .unwrap();
    creation
        .apply("00-a", annotations(&[("gone", "1")]))
        .unwrap();
    creation
        .apply("01-b", annotations(&[("-gone", "")]))
        .unwrap();
    let args = |list: &[&str]| {
        answer(ContainerAdjustment {
            args: list.iter().map(|&one| one.into()).collect(),
            ..ContainerAdjustment::default()
        })
    };
    creation.apply("00-a", args(&["echo", "a"])).unwrap();
    conflict(creation.apply("01-b", args(&["echo", "b"])));
    creation.apply("01-b", args(&["", "echo", "b"])).unwrap();
    let (adjust, _, _) = creation.finish();
    assert_eq!(adjust.env, [variable("X", "2")]);
    assert_eq!(adjust.annotations.get("k").unwrap(), "2");
    assert!(!adjust.annotations.contains_key("gone"));
    assert!(adjust.annotations.contains_key("-gone"));
    assert_eq!(adjust.args, ["echo", "b"]);
}

#[test]
fn hooks_of_all_plugins_are_taken_and_all_their_names_kept() {
    let mut creation = creation();
    let hook = |path: &str| {
        answer(ContainerAdjustment {
            hooks: Some(Hooks {
                prestart: vec![Hook {
                    path: path.into(),
                    ..Hook::default()
                }],
                ..Hooks::default()
            }),
            ..ContainerAdjustment::default()
        })
    };
    creation.apply("00-a", hook("/a")).unwrap();
    creation.apply("01-b", hook("/b")).unwrap();
    let request = creation.to_validate(Container::default(), Vec::new());
    let owners = &request.owners.unwrap().owners["c"];
    assert_eq!(owners.simple[&(Field::OciHooks as i32)], "00-a,01-b");
    assert_eq!(creation.finish().0.hooks.unwrap().prestart.len(), 2);
}

#[test]
fn resources_are_owned_field_by_field() {
    let mut creation = creation();
    let memory = |limit: Option<i64>, swap: Option<i64>| {
        of_linux(LinuxContainerAdjustment {
            resources: Some(LinuxResources {
                memory: Some(LinuxMemory {
                    limit: limit.map(|value| OptionalInt64 { value }),
                    swap: swap.map(|value| OptionalInt64 { value }),
                    ..LinuxMemory::default()
                }),
                ..LinuxResources::default()
            }),
            ..LinuxContainerAdjustment::default()
        })
    };
    creation.apply("00-a", memory(Some(1), None)).unwrap();
    creation.apply("01-b", memory(None, Some(2))).unwrap();
    let text = conflict(creation.apply("02-c", memory(Some(3), None)));
    assert!(text.contains("MemLimit"), "{text}");
    let (adjust, _, _) = creation.finish();
    let memory = adjust.linux.unwrap().resources.unwrap().memory.unwrap();
    assert_eq!(
        (memory.limit.unwrap().value, memory.swap.unwrap().value),
        (1, 2)
    );
}

#[test]
fn devices_namespaces_scores_and_rdt() {
    let mut creation = creation();
    let device = |path: &str| LinuxDevice {
        path: path.into(),
        ..LinuxDevice::default()
    };
    let namespace = |kind: &str| LinuxNamespace {
        r#type: kind.into(),
        path: String::new(),
    };
    let wanted = LinuxContainerAdjustment {
        devices: vec![device("/dev/a"), device("-/dev/own")],
        namespaces: vec![namespace("-cgroup"), namespace("network")],
        oom_score_adj: Some(OptionalInt { value: 7 }),
        rdt: Some(LinuxRdt {
            clos_id: Some(OptionalString { value: "x".into() }),
            ..LinuxRdt::default()
        }),
        ..LinuxContainerAdjustment::default()
    };
    creation.apply("00-a", of_linux(wanted)).unwrap();
    for again in [
        LinuxContainerAdjustment {
            devices: vec![device("/dev/a")],
            ..LinuxContainerAdjustment::default()
        },
        LinuxContainerAdjustment {
            namespaces: vec![namespace("cgroup")],
            ..LinuxContainerAdjustment::default()
        },
        LinuxContainerAdjustment {
            oom_score_adj: Some(OptionalInt { value: 8 }),
            ..LinuxContainerAdjustment::default()
        },
        LinuxContainerAdjustment {
            rdt: Some(LinuxRdt {
                clos_id: Some(OptionalString { value: "y".into() }),
                ..LinuxRdt::default()
            }),
            ..LinuxContainerAdjustment::default()
        },
    ] {
        conflict(creation.apply("01-b", of_linux(again)));
    }
    let remove = LinuxContainerAdjustment {
        rdt: Some(LinuxRdt {
            remove: true,
            ..LinuxRdt::default()
        }),
        ..LinuxContainerAdjustment::default()
    };
    creation.apply("01-b", of_linux(remove)).unwrap();
    let linux = creation.finish().0.linux.unwrap();
    let paths: Vec<_> = linux.devices.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["-/dev/own", "/dev/a"]);
    assert_eq!(linux.namespaces.len(), 2);
    let rdt = linux.rdt.unwrap();
    assert!(rdt.remove && rdt.clos_id.is_none());
}

#[test]
fn the_container_itself_is_adjusted_not_updated() {
    let mut creation = creation();
    let answer = CreateContainerResponse {
        update: vec![ContainerUpdate {
            container_id: "c".into(),
            ..ContainerUpdate::default()
        }],
        ..CreateContainerResponse::default()
    };
    let error = creation.apply("00-a", answer).unwrap_err();
    assert!(matches!(error, Error::UpdateInCreation { .. }), "{error}");
}
