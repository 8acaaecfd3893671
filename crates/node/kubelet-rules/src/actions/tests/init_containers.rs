//! Init containers and sidecars, in every order of failing.

use super::*;

#[test]
fn plain_init_containers() {
    use RestartPolicy::{Always, Never, OnFailure};
    let oom = ContainerStatus {
        reason: "OOMKilled".to_owned(),
        ..exited("i", 0)
    };
    for (what, policy, statuses, expected) in [
        (
            "none yet",
            Never,
            vec![],
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "first runs",
            Always,
            vec![in_state("i", Running)],
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "first done",
            Never,
            vec![exited("i", 0)],
            (false, false, vec![1], vec![], vec![]),
        ),
        (
            "last done",
            Never,
            vec![exited("i", 0), exited("j", 0)],
            (false, false, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "last done, first purged",
            Always,
            vec![exited("j", 0)],
            (false, false, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "first created",
            Never,
            vec![in_state("i", Created)],
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "failed, Never",
            Never,
            vec![exited("i", 1)],
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "failed, OnFailure",
            OnFailure,
            vec![exited("i", 1)],
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "out of memory, code 0",
            OnFailure,
            vec![oom.clone()],
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "out of memory, Never",
            Never,
            vec![oom],
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "unknown, Always",
            Always,
            vec![in_state("i", Unknown)],
            (
                false,
                false,
                vec![0],
                vec![],
                vec![("i", KillReason::Unknown)],
            ),
        ),
        (
            "unknown, Never",
            Never,
            vec![in_state("i", Unknown)],
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "regular ones run: failed init is history",
            Always,
            with(all_running(), exited("j", 1)),
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "rebooted: only exited regular ones, init statuses gone",
            Always,
            vec![exited("a", 0), exited("b", 0), exited("c", 0)],
            (false, false, vec![0], vec![], vec![]),
        ),
    ] {
        check(
            what,
            &pod(policy, &["i", "j"]),
            &observed(statuses),
            &expected,
        );
    }
}

#[test]
fn sidecars() {
    let started = |extra: Vec<ContainerStatus>| {
        let mut rows = all_running();
        rows.extend(extra);
        rows
    };
    let changed = ContainerStatus {
        hash: None,
        ..in_state("s1", Running)
    };
    for (what, policy, statuses, expected) in [
        (
            "first runs: on to the second",
            RestartPolicy::Always,
            vec![in_state("s1", Running)],
            (false, false, vec![1], vec![], vec![]),
        ),
        (
            "both run: on to the regular ones",
            RestartPolicy::Always,
            vec![in_state("s1", Running), in_state("s2", Running)],
            (false, false, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "one ended beside regular ones, Never",
            RestartPolicy::Never,
            started(vec![exited("s1", 0), in_state("s2", Running)]),
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "one vanished beside regular ones",
            RestartPolicy::Always,
            started(vec![in_state("s2", Running)]),
            (false, false, vec![0], vec![], vec![]),
        ),
        (
            "both ended: in their order",
            RestartPolicy::Always,
            started(vec![exited("s1", 1), exited("s2", 1)]),
            (false, false, vec![0, 1], vec![], vec![]),
        ),
        (
            "first changed while it leads",
            RestartPolicy::Always,
            vec![changed],
            (
                false,
                false,
                vec![0, 1],
                vec![],
                vec![("s1", KillReason::DefinitionChanged)],
            ),
        ),
        (
            "unknown",
            RestartPolicy::Never,
            vec![in_state("s1", Unknown)],
            (
                false,
                false,
                vec![0],
                vec![],
                vec![("s1", KillReason::Unknown)],
            ),
        ),
        (
            "regular ones have ended for good: sidecars stay down",
            RestartPolicy::Never,
            vec![
                exited("a", 0),
                exited("b", 0),
                exited("c", 0),
                exited("s1", 0),
                in_state("s2", Running),
            ],
            (true, false, vec![], vec![], vec![]),
        ),
    ] {
        check(
            what,
            &pod(policy, &["s1", "s2"]),
            &observed(statuses),
            &expected,
        );
    }
}

#[test]
fn probes_of_a_sidecar() {
    let mut pod = pod(RestartPolicy::Never, &["s1", "s2"]);
    pod.spec.init_containers[0].startup_probe = Some(crate::pod::Probe::default());
    for (what, startup, liveness, expected) in [
        (
            "not probed yet",
            None,
            None,
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "no verdict",
            Some(ProbeResult::Unknown),
            None,
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "did not come up",
            Some(ProbeResult::Failure),
            None,
            (
                false,
                false,
                vec![0],
                vec![],
                vec![("s1", KillReason::StartupProbe)],
            ),
        ),
        (
            "came up",
            Some(ProbeResult::Success),
            None,
            (false, false, vec![1], vec![], vec![]),
        ),
        (
            "came up, then failed",
            Some(ProbeResult::Success),
            Some(ProbeResult::Failure),
            (
                false,
                false,
                vec![0, 1],
                vec![],
                vec![("s1", KillReason::LivenessProbe)],
            ),
        ),
    ] {
        let mut seen = observed(vec![in_state("s1", Running)]);
        seen.probes
            .startup
            .extend(startup.map(|r| ("s1-id".to_owned(), r)));
        seen.probes
            .liveness
            .extend(liveness.map(|r| ("s1-id".to_owned(), r)));
        check(what, &pod, &seen, &expected);
    }
}
