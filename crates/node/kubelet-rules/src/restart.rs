//! Decides whether a container restarts: the kubelet's `ShouldContainerBeRestarted`.

use crate::pod::{
    Container, ContainerRestartPolicy, ExitCodeOperator, Pod, RestartPolicy, RestartRule,
    RestartRuleAction,
};
use crate::status::{ContainerState, PodStatus};

/// Whether a container that is not running should start, from its newest instance.
pub fn should_be_started(container: &Container, pod: &Pod, status: &PodStatus) -> bool {
    if pod.is_being_deleted() {
        return false;
    }
    let Some(newest) = status.newest(&container.name) else {
        return true;
    };
    match newest.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => {
            container_should_restart(container, pod.spec.restart_policy, newest.exit_code)
        }
    }
}

/// Whether a container that ended with `exit_code` restarts: if one of its rules matches, it does;
/// otherwise its own policy decides, then the pod's.
pub fn container_should_restart(
    container: &Container,
    pod_policy: RestartPolicy,
    exit_code: i32,
) -> bool {
    if matching_rule(container, exit_code).is_some() {
        return true;
    }
    match effective_policy(container, pod_policy) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// Returns the first rule that matches an exit code. A container without its own policy has no
/// rules.
pub fn matching_rule(container: &Container, exit_code: i32) -> Option<RestartRuleAction> {
    container.restart_policy?;
    container
        .restart_policy_rules
        .iter()
        .find(|rule| matches(rule, exit_code))
        .map(|rule| rule.action)
}

/// Whether a failed probe restarts the container. There is no exit code yet, so rules do not apply.
pub fn restarts_after_probe(container: &Container, pod_policy: RestartPolicy) -> bool {
    effective_policy(container, pod_policy) != RestartPolicy::Never
}

/// Returns the container's own policy, or the pod's.
pub fn effective_policy(container: &Container, pod_policy: RestartPolicy) -> RestartPolicy {
    match container.restart_policy {
        Some(ContainerRestartPolicy::Always) => RestartPolicy::Always,
        Some(ContainerRestartPolicy::OnFailure) => RestartPolicy::OnFailure,
        Some(ContainerRestartPolicy::Never) => RestartPolicy::Never,
        None => pod_policy,
    }
}

fn matches(rule: &RestartRule, exit_code: i32) -> bool {
    rule.exit_codes.as_ref().is_some_and(|codes| {
        let listed = codes.values.contains(&exit_code);
        match codes.operator {
            ExitCodeOperator::In => listed,
            ExitCodeOperator::NotIn => !listed,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{container, exited, in_state};

    #[test]
    fn policies_and_rules() {
        let none = "";
        let rule_42 = r#","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]"#;
        let not_in = r#","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"NotIn","values":[0,1]}}]"#;
        use RestartPolicy::{Always, Never, OnFailure};
        for (own, rules, pod_policy, exit_code, expected) in [
            (None, none, Always, 0, true),
            (None, none, OnFailure, 0, false),
            (None, none, OnFailure, 1, true),
            (None, none, Never, 1, false),
            (Some("Always"), none, Never, 0, true),
            (Some("OnFailure"), none, Always, 0, false),
            (Some("OnFailure"), none, Never, 1, true),
            (Some("Never"), none, Always, 1, false),
            (Some("Never"), rule_42, Never, 42, true),
            (Some("Never"), rule_42, Always, 41, false),
            (Some("Never"), not_in, Never, 2, true),
            (Some("Never"), not_in, Never, 1, false),
            // Rules need a policy of the container.
            (None, rule_42, Never, 42, false),
        ] {
            let own_json = own.map_or(String::new(), |p| format!(r#","restartPolicy":"{p}""#));
            let c: Container =
                serde_json::from_str(&format!(r#"{{"name":"c"{own_json}{rules}}}"#)).unwrap();
            assert_eq!(
                container_should_restart(&c, pod_policy, exit_code),
                expected,
                "{own:?} {rules} {pod_policy:?} {exit_code}"
            );
        }
    }

    #[test]
    fn the_state_of_the_newest_instance_decides() {
        let mut pod = Pod::default();
        pod.spec.restart_policy = RestartPolicy::Never;
        pod.spec.containers = vec![container("c")];
        for (what, statuses, expected) in [
            ("never started", vec![], true),
            (
                "running",
                vec![in_state("c", ContainerState::Running)],
                false,
            ),
            (
                "created only",
                vec![in_state("c", ContainerState::Created)],
                true,
            ),
            (
                "unknown",
                vec![in_state("c", ContainerState::Unknown)],
                true,
            ),
            ("exited", vec![exited("c", 1)], false),
        ] {
            let status = PodStatus::new(Vec::new(), statuses);
            let c = &pod.spec.containers[0];
            assert_eq!(should_be_started(c, &pod, &status), expected, "{what}");
            let mut deleted = pod.clone();
            deleted.metadata.deletion_timestamp = Some("2030-01-01T00:00:00Z".to_owned());
            assert!(!should_be_started(c, &deleted, &status), "{what}, deleted");
        }
    }
}
