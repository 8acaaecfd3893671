//! The default profile of the engine, whole.

use orlop_oci_types::Seccomp;

use super::machine::{self, Call};
use super::{meaning, profile};
use crate::Arch;
use crate::calls::{self, Multiplexed};
use crate::program::translate;

/// The names that it always allows, for the architecture and those that its machines run as well; what
/// depends on arguments is as the engine has it. Where `socketcall` is denied, it is missing.
fn default_profile(architectures: &str, deny_socketcall: bool) -> Seccomp {
    let list = include_str!("../../../../runtime/engine/src/spec/seccomp_default.txt");
    let names: Vec<_> = list
        .lines()
        .filter_map(|line| line.strip_prefix("allow "))
        .flat_map(str::split_whitespace)
        .filter(|name| !deny_socketcall || *name != "socketcall")
        .map(|name| format!("\"{name}\""))
        .collect();
    assert!(names.len() > 300);
    let allow_if = |name: &str, op: &str, value: u64, value_two: u64| {
        format!(
            r#"{{"names":["{name}"],"action":"SCMP_ACT_ALLOW",
                "args":[{{"index":0,"value":{value},"valueTwo":{value_two},"op":"SCMP_CMP_{op}"}}]}}"#
        )
    };
    let missing =
        |name| format!(r#"{{"names":["{name}"],"action":"SCMP_ACT_ERRNO","errnoRet":38}}"#);
    let mut rules = vec![
        format!(
            r#"{{"names":[{}],"action":"SCMP_ACT_ALLOW"}}"#,
            names.join(",")
        ),
        allow_if("clone", "MASKED_EQ", 0x7e02_0000, 0),
        missing("clone3"),
    ];
    if deny_socketcall {
        rules.push(missing("socketcall"));
    }
    rules.extend(
        [
            (0xffff_ffe0, 0),
            (0xffff_fffc, 32),
            (0xffff_fffe, 36),
            (0xffff_ffff, 39),
            (0xffff_ffff, 41),
            (0xffff_fffe, 42),
            (0xffff_fffc, 44),
            (0xffff_fff0, 48),
        ]
        .map(|(mask, family)| allow_if("socket", "MASKED_EQ", mask, family)),
    );
    rules.extend(
        [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff]
            .map(|value| allow_if("personality", "EQ", value, 0)),
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
    let profile = default_profile(X86, false);
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
    let program = translate(&default_profile(X86, false), native).unwrap();
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
    for family in [0x1_0000_0028, 0xffff_ffff_0000_0026] {
        assert_eq!(
            answer(x86_64, 41, family),
            eperm,
            "the same with bits that the kernel ignores"
        );
    }
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

/// `socketcall` and `ipc` of 32-bit programs, held against the calls that they stand for.
#[test]
fn a_multiplexed_call_reaches_what_is_denied_only_by_socketcall_where_that_is_allowed() {
    let native = Arch::by_name("SCMP_ARCH_X86_64").unwrap();
    let x86 = Arch::by_name("SCMP_ARCH_X86").unwrap();
    let number = |arch: Arch, name| calls::find(name).and_then(|call| arch.number(call));
    for (deny_socketcall, expected) in [(false, &["socket"][..]), (true, &[])] {
        let program = translate(&default_profile(X86, deny_socketcall), native).unwrap();
        let allows = |arch: Arch, number, first| {
            let call = Call {
                audit: arch.audit(),
                number,
                args: [first, 0, 0, 0, 0, 0],
            };
            machine::run(&program, &call, true).0 == 0x7fff_0000
        };
        let mut reached = Vec::new();
        let mut seen = 0;
        for call in calls::all() {
            let Some((stands_for, which)) = call.multiplexed().map(Multiplexed::stands_for) else {
                continue;
            };
            seen += 1;
            // `send` and `recv` are calls of their own on neither.
            let direct = [native, x86].map(|arch| Some((arch, number(arch, call.name())?)));
            let direct = direct.into_iter().flatten().next();
            let denied = direct.is_some_and(|(arch, number)| !allows(arch, number, 40));
            if denied && allows(x86, number(x86, stands_for).unwrap(), which) {
                reached.push(call.name());
            }
        }
        assert_eq!(seen, 32);
        assert_eq!(reached, expected, "denied: {deny_socketcall}");
    }
}
