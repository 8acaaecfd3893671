//! Supported seccomp features, for `features`, in runc's order.

use orlop_oci_types::{SeccompAction, SeccompOperator};

use crate::Arch;
use crate::flag::Flag;

/// All known flags, whether the kernel supports them or not.
pub const KNOWN_FLAGS: [&str; 4] = [
    Flag::Tsync.name(),
    Flag::SpecAllow.name(),
    Flag::Log.name(),
    Flag::WaitKillable.name(),
];

/// Flags that this kernel supports.
pub fn supported_flags() -> Vec<&'static str> {
    let flags = Flag::ALL.into_iter();
    flags
        .filter(|flag| flag.is_supported())
        .map(Flag::name)
        .collect()
}

/// Actions that a profile can name.
pub fn known_actions() -> Vec<&'static str> {
    use SeccompAction as Action;
    let all = [
        Action::Allow,
        Action::Errno,
        Action::Kill,
        Action::KillProcess,
        Action::KillThread,
        Action::Log,
        Action::Notify,
        Action::Trace,
        Action::Trap,
    ];
    all.map(action_name).to_vec()
}

/// Comparisons that a profile can name.
pub fn known_operators() -> Vec<&'static str> {
    use SeccompOperator as Operator;
    let all = [
        Operator::Equal,
        Operator::GreaterOrEqual,
        Operator::Greater,
        Operator::LessOrEqual,
        Operator::Less,
        Operator::MaskedEqual,
        Operator::NotEqual,
    ];
    all.map(operator_name).to_vec()
}

/// Architectures that a profile can name.
pub fn known_architectures() -> Vec<&'static str> {
    Arch::all().map(Arch::name).collect()
}

/// Returns the name of an action in a profile.
pub(crate) fn action_name(action: SeccompAction) -> &'static str {
    match action {
        SeccompAction::Kill => "SCMP_ACT_KILL",
        SeccompAction::KillProcess => "SCMP_ACT_KILL_PROCESS",
        SeccompAction::KillThread => "SCMP_ACT_KILL_THREAD",
        SeccompAction::Trap => "SCMP_ACT_TRAP",
        SeccompAction::Errno => "SCMP_ACT_ERRNO",
        SeccompAction::Trace => "SCMP_ACT_TRACE",
        SeccompAction::Allow => "SCMP_ACT_ALLOW",
        SeccompAction::Log => "SCMP_ACT_LOG",
        SeccompAction::Notify => "SCMP_ACT_NOTIFY",
    }
}

fn operator_name(operator: SeccompOperator) -> &'static str {
    match operator {
        SeccompOperator::NotEqual => "SCMP_CMP_NE",
        SeccompOperator::Less => "SCMP_CMP_LT",
        SeccompOperator::LessOrEqual => "SCMP_CMP_LE",
        SeccompOperator::Equal => "SCMP_CMP_EQ",
        SeccompOperator::GreaterOrEqual => "SCMP_CMP_GE",
        SeccompOperator::Greater => "SCMP_CMP_GT",
        SeccompOperator::MaskedEqual => "SCMP_CMP_MASKED_EQ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    #[test]
    fn names_are_those_that_profiles_are_read_by() {
        for name in known_actions() {
            let action: SeccompAction = serde_json::from_value(name.into()).unwrap();
            assert_eq!(action_name(action), name);
        }
        for name in known_operators() {
            let operator: SeccompOperator = serde_json::from_value(name.into()).unwrap();
            assert_eq!(operator_name(operator), name);
        }
        assert!(known_actions().is_sorted() && known_operators().is_sorted());
        assert_eq!((known_actions().len(), known_operators().len()), (9, 7));
    }

    /// All of them are older than the oldest supported kernel.
    #[test]
    fn the_kernel_is_asked_what_it_has() {
        assert!(supported_flags().contains(&"SECCOMP_FILTER_FLAG_LOG"));
        assert!(!kernel::supports(1 << 31));
        assert!(kernel::has_action(crate::action::LOG));
        assert!(!kernel::has_action(0x1234_0000));
    }
}
