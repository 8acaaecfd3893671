//! The default profile of the engine, whole.

use orlop_oci::Seccomp;

use super::machine::{self, Call};
use super::{meaning, profile};
use crate::Arch;
use crate::program::translate;

/// The names that it always allows, for the architecture and those that its machines run as well; what
/// depends on arguments is as the engine has it.
pub(super) fn default_profile(architectures: &str) -> Seccomp {
    let list = include_str!("../../../engine/src/spec/seccomp_default.txt");
    let names: Vec<_> = list
        .lines()
        .filter_map(|line| line.strip_prefix("allow "))
        .flat_map(str::split_whitespace)
        .map(|name| format!("\"{name}\""))
        .collect();
    assert!(names.len() > 300);
    let allow_if = |name: &str, value: u64, op: &str| {
        format!(
            r#"{{"names":["{name}"],"action":"SCMP_ACT_ALLOW",
                "args":[{{"index":0,"value":{value},"valueTwo":0,"op":"SCMP_CMP_{op}"}}]}}"#
        )
    };
    let mut rules = vec![
        format!(
            r#"{{"names":[{}],"action":"SCMP_ACT_ALLOW"}}"#,
            names.join(",")
        ),
        allow_if("socket", 38, "LT"),
        allow_if("socket", 39, "EQ"),
        allow_if("socket", 40, "GT"),
        allow_if("clone", 0x7e02_0000, "MASKED_EQ"),
        r#"{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38}"#.to_owned(),
    ];
    rules.extend(
        [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff].map(|value| allow_if("personality", value, "EQ")),
    );
    profile(&format!(
        r#"{{"defaultAction":"SCMP_ACT_ERRNO","architectures":[{architectures}],"syscalls":[{}]}}"#,
        rules.join(",")
    ))
}

const X86: &str = r#""SCMP_ARCH_X86_64","SCMP_ARCH_X86","SCMP_ARCH_X32""#;

#[test]
fn every_number_of_the_default_profile_has_its_answer_in_a_dozen_steps() {
    let native = Arch::by_name("SCMP_ARCH_X86_64").unwrap();
    let profile = default_profile(X86);
    let program = translate(&profile, native).unwrap();
    assert!(program.len() < 500, "{}", program.len());
    for arch in ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"] {
        let arch = Arch::by_name(arch).unwrap();
        for number in 0..600 {
            let call = Call {
                audit: arch.audit(),
                number: arch.base() + number,
                args: [40, 0, 0, 0, 0, 0],
            };
            let (answer, steps) = machine::run(&program, &call, true);
            assert_eq!(
                answer,
                meaning::of(&profile, native, &call),
                "{} {number}",
                arch.name()
            );
            let conditional = ["socket", "clone", "personality", "socketcall"];
            let conditional = conditional.iter().any(|name| {
                crate::calls::find(name).and_then(|call| arch.number(call)) == Some(call.number)
            });
            assert!(
                steps <= 14 || conditional,
                "{} {number}: {steps}",
                arch.name()
            );
        }
    }
}

#[test]
fn what_the_default_profile_is_for_is_denied() {
    let native = Arch::by_name("SCMP_ARCH_X86_64").unwrap();
    let program = translate(&default_profile(X86), native).unwrap();
    let answer = |audit, number, first| {
        let call = Call {
            audit,
            number,
            args: [first, 0, 0, 0, 0, 0],
        };
        machine::run(&program, &call, true).0
    };
    let (allow, eperm, enosys) = (0x7fff_0000, 0x0005_0001, 0x0005_0026);
    let x86_64 = native.audit();
    assert_eq!(answer(x86_64, 0, 0), allow, "read");
    assert_eq!(answer(x86_64, 41, 2), allow, "an internet socket");
    assert_eq!(answer(x86_64, 41, 40), eperm, "a socket to the hypervisor");
    assert_eq!(
        answer(x86_64, 41, 38),
        eperm,
        "a socket of the kernel's ciphers"
    );
    assert_eq!(answer(x86_64, 56, 17), allow, "a child");
    assert_eq!(
        answer(x86_64, 56, 0x1000_0000),
        eperm,
        "a child in a user namespace"
    );
    assert_eq!(
        answer(x86_64, 435, 0),
        enosys,
        "clone3, which cannot be looked into"
    );
    assert_eq!(answer(x86_64, 165, 0), eperm, "mount");
    assert_eq!(answer(x86_64, 600, 0), enosys, "a call of the future");
    assert_eq!(
        answer(0x4000_0003, 21, 0),
        eperm,
        "mount by the 32-bit door"
    );
    assert_eq!(answer(0xc000_00b7, 0, 0), 0, "another architecture");
}
