//! What a profile says of one call, rule by rule and without any order of comparisons.

use std::cmp::Reverse;

use orlop_oci_types::{Seccomp, SeccompAction, SeccompArg, SeccompOperator as Operator};

use super::machine::Call;
use crate::{Arch, calls};

const ENOSYS: u32 = 0x0005_0026;

pub(super) fn answer(action: SeccompAction, errno: Option<u32>) -> u32 {
    let errno = errno.unwrap_or(1) & 0xffff;
    match action {
        SeccompAction::Kill | SeccompAction::KillThread => 0,
        SeccompAction::KillProcess => 0x8000_0000,
        SeccompAction::Trap => 0x0003_0000,
        SeccompAction::Errno => 0x0005_0000 + errno,
        SeccompAction::Notify => 0x7fc0_0000,
        SeccompAction::Trace => 0x7ff0_0000 + errno,
        SeccompAction::Log => 0x7ffc_0000,
        SeccompAction::Allow => 0x7fff_0000,
    }
}

/// What becomes of a call on a machine of this architecture.
pub(super) fn of(profile: &Seccomp, native: Arch, call: &Call) -> u32 {
    let default = answer(profile.default_action, profile.default_errno_ret);
    let mut archs: Vec<Arch> = (profile.architectures.iter())
        .map(|name| Arch::by_name(name).unwrap())
        .collect();
    archs.push(native);
    archs.retain(|arch| arch.audit() == call.audit);
    if archs.is_empty() {
        return 0;
    }
    let x86 = call.audit == 0xc000_003e;
    let x32 = x86 && call.number & 0x4000_0000 != 0;
    let strict = !matches!(
        profile.default_action,
        SeccompAction::Allow | SeccompAction::Log | SeccompAction::Trace
    );
    let arch = archs.iter().copied().find(|arch| arch.is_x32() == x32);
    if let Some(arch) = arch.filter(|_| strict) {
        let named = profile.syscalls.iter().flat_map(|rule| &rule.names);
        let numbers = named.filter_map(|name| plain_number(arch, name));
        let largest = numbers.max().unwrap_or(0);
        let s390 = arch.name().starts_with("SCMP_ARCH_S390");
        if largest > 0 && (call.number > largest || (s390 && call.number == 0)) {
            return ENOSYS;
        }
    }
    let arch = match arch {
        // Numbers of more than 31 bits without that of x32 are x86_64's, as none are.
        Some(arch) if !x86 || x32 || call.number < 0x4000_0000 => arch,
        Some(_) if archs.iter().any(|arch| arch.is_x32()) => return default,
        // libseccomp looks for the bit of x32 by size.
        None if archs[0].is_x32() && call.number > 0x7fff_ffff => return default,
        None if call.number == u32::MAX => return default,
        _ => return 0,
    };
    from_rules(profile, arch, call, default)
}

fn from_rules(profile: &Seccomp, arch: Arch, call: &Call, default: u32) -> u32 {
    let mut holding: Vec<(Vec<SeccompArg>, u32)> = Vec::new();
    for rule in &profile.syscalls {
        let answer = answer(rule.action, rule.errno_ret);
        if answer == default {
            continue;
        }
        for name in &rule.names {
            for conditions in conditions_of(arch, name, &rule.args, call.number) {
                if conditions.is_empty() {
                    return answer;
                }
                if conditions.iter().all(|arg| holds(arch, arg, call)) {
                    holding.push((conditions, answer));
                }
            }
        }
    }
    holding.sort_by_key(|(conditions, _)| {
        let keys = conditions.iter().map(|arg| {
            let (value, mask) = value_and_mask(arch, arg);
            let (class, rank) = match arg.op {
                Operator::Equal | Operator::NotEqual | Operator::MaskedEqual => (3, !value),
                Operator::Less | Operator::LessOrEqual => (2, value),
                Operator::Greater | Operator::GreaterOrEqual => (1, !value),
            };
            (
                Reverse(arg.index),
                Reverse(class),
                rank,
                !mask,
                arg.op as u8,
            )
        });
        keys.collect::<Vec<_>>()
    });
    holding.first().map_or(default, |(_, answer)| *answer)
}

/// The sets of conditions under which a rule that names this speaks of this number.
fn conditions_of(arch: Arch, name: &str, args: &[SeccompArg], number: u32) -> Vec<Vec<SeccompArg>> {
    let mut sets: Vec<Vec<SeccompArg>> = vec![args.to_vec()];
    sets[0].sort_by_key(|arg| arg.index);
    if sets[0].windows(2).any(|two| two[0].index == two[1].index) {
        sets = args.iter().map(|arg| vec![arg.clone()]).collect();
    }
    for set in &mut sets {
        set.retain(|arg| value_and_mask(arch, arg).1 != 0);
    }
    let direct = calls::find(name).and_then(|call| arch.number(call));
    let base = if arch.name().starts_with("SCMP_ARCH_MIPS") {
        4000
    } else {
        0
    };
    let mut all = Vec::new();
    if let Some((stands_for, which)) = multiplexed(arch, name)
        && number == base + stands_for
    {
        for set in &sets {
            let mut set = set.clone();
            set.retain(|arg| arg.index != 0);
            let which = SeccompArg {
                index: 0,
                value: which,
                value_two: 0,
                op: Operator::Equal,
            };
            set.insert(0, which);
            all.push(set);
        }
    }
    if direct == Some(number) {
        all.extend(sets);
    }
    all
}

fn holds(arch: Arch, arg: &SeccompArg, call: &Call) -> bool {
    let (value, mask) = value_and_mask(arch, arg);
    let given = call.args[arg.index as usize] & mask;
    match arg.op {
        Operator::Equal | Operator::MaskedEqual => given == value,
        Operator::NotEqual => given != value,
        Operator::Less => given < value,
        Operator::LessOrEqual => given <= value,
        Operator::Greater => given > value,
        Operator::GreaterOrEqual => given >= value,
    }
}

fn value_and_mask(arch: Arch, arg: &SeccompArg) -> (u64, u64) {
    let narrow = arch.audit() & 0x8000_0000 == 0
        || ["SCMP_ARCH_X32"].contains(&arch.name())
        || arch.name().ends_with("N32");
    let bits = if narrow { 0xffff_ffff } else { u64::MAX };
    match arg.op {
        Operator::MaskedEqual => (arg.value_two & arg.value & bits, arg.value & bits),
        _ => (arg.value & bits, bits),
    }
}

/// The number of a call that has only one.
fn plain_number(arch: Arch, name: &str) -> Option<u32> {
    if multiplexed(arch, name).is_some() {
        return None;
    }
    arch.number(calls::find(name)?)
}

fn multiplexed(arch: Arch, name: &str) -> Option<(u32, u64)> {
    let multiplexing = [
        "X86", "M68K", "MIPS", "MIPSEL", "PPC", "PPC64", "PPC64LE", "S390", "S390X", "SH", "SHEB",
    ];
    if !multiplexing.contains(&&arch.name()["SCMP_ARCH_".len()..]) {
        return None;
    }
    Some(match name {
        "socket" => (102, 1),
        "connect" => (102, 3),
        "accept4" => (102, 18),
        "sendmmsg" => (102, 20),
        "semop" => (117, 1),
        "msgget" => (117, 13),
        "shmctl" => (117, 24),
        _ => return None,
    })
}
