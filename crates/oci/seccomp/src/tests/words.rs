//! What is said of profiles that cannot be, and of bytes that are no program.

use super::profile;
use crate::{Error, Program, Unreadable};

fn refusal(text: &str) -> String {
    Program::compile(&profile(text)).unwrap_err().to_string()
}

#[test]
fn what_runc_refuses_is_refused_in_its_words() {
    let cases = [
        (
            r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#,
            "SCMP_ACT_NOTIFY cannot be used as default action",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read","write"],"action":"SCMP_ACT_NOTIFY"}]}"#,
            "SCMP_ACT_NOTIFY cannot be used for the write syscall",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_VAX"]}"#,
            "string SCMP_ARCH_VAX is not a valid arch for seccomp",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_SHRUG"]}"#,
            "seccomp flag SECCOMP_FILTER_FLAG_SHRUG is not known to runc",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":[""],"action":"SCMP_ACT_ERRNO"}]}"#,
            "empty string is not a valid syscall",
        ),
    ];
    for (text, words) in cases {
        assert_eq!(refusal(text), words);
    }
    let seventh = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO",
        "args":[{"index":6,"value":1,"op":"SCMP_CMP_EQ"}]}]}"#;
    assert!(refusal(seventh).contains("syscall read: argument 6 does not exist"));
    let both = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
        {"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]},
        {"names":["read"],"action":"SCMP_ACT_TRAP","args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]}]}"#;
    assert_eq!(
        Program::compile(&profile(both)),
        Err(Error::Contradiction("read"))
    );
}

#[test]
fn architectures_of_the_other_byte_order_are_refused() {
    let name = if cfg!(target_endian = "little") {
        "SCMP_ARCH_S390X"
    } else {
        "SCMP_ARCH_X86_64"
    };
    let text = format!(r#"{{"defaultAction":"SCMP_ACT_ALLOW","architectures":["{name}"]}}"#);
    assert_eq!(
        Program::compile(&profile(&text)),
        Err(Error::ForeignByteOrder(name))
    );
}

#[test]
fn a_profile_past_the_kernels_limit_is_refused_with_its_length() {
    let rule = |value| {
        format!(
            r#"{{"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{{"index":0,"value":{value},"op":"SCMP_CMP_EQ"}}]}}"#
        )
    };
    let rules: Vec<_> = (0..2000).map(rule).collect();
    let text = format!(
        r#"{{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{}]}}"#,
        rules.join(",")
    );
    assert!(matches!(
        Program::compile(&profile(&text)),
        Err(Error::TooLong(8000..))
    ));
}

#[test]
fn names_that_nobody_knows_are_told() {
    let text = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
        {"names":["read","fold_space"],"action":"SCMP_ACT_ERRNO"}]}"#;
    assert_eq!(Program::unknown_names(&profile(text)), ["fold_space"]);
}

#[test]
fn flags_are_told_to_the_kernel_as_runc_does() {
    let flags = |flags: &str, action: &str| {
        let text = format!(
            r#"{{"defaultAction":"SCMP_ACT_ALLOW"{flags},"syscalls":[{{"names":["getpid"],"action":"{action}"}}]}}"#
        );
        Program::compile(&profile(&text)).unwrap().flags()
    };
    let speculation = u32::from(crate::supports(4)) * 4;
    assert_eq!(flags("", "SCMP_ACT_ERRNO"), speculation);
    assert_eq!(flags(r#","flags":[]"#, "SCMP_ACT_ERRNO"), 0);
    assert_eq!(
        flags(
            r#","flags":["SECCOMP_FILTER_FLAG_TSYNC","SECCOMP_FILTER_FLAG_LOG"]"#,
            "SCMP_ACT_ERRNO"
        ),
        2
    );
    assert_eq!(flags(r#","flags":[]"#, "SCMP_ACT_NOTIFY"), 8);
    if crate::supported_flags().contains(&"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV") {
        let killable = r#","flags":["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]"#;
        assert_eq!(flags(killable, "SCMP_ACT_NOTIFY"), 8 + 32);
        assert_eq!(
            flags(killable, "SCMP_ACT_ERRNO"),
            0,
            "the kernel refuses it alone"
        );
    }
}

#[test]
fn a_kept_program_is_read_as_it_was_or_not_at_all() {
    let text = r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","clone"],"action":"SCMP_ACT_ALLOW"}]}"#;
    let program = Program::compile(&profile(text)).unwrap();
    let bytes = program.to_bytes();
    assert_eq!(Program::from_bytes(&bytes).as_ref(), Ok(&program));

    for length in 0..bytes.len() {
        assert!(Program::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Program::from_bytes(&changed).is_err(), "{at}");
    }
    let longer = [bytes.as_slice(), &[0; 8]].concat();
    assert_eq!(Program::from_bytes(&longer), Err(Unreadable::Length));
}
