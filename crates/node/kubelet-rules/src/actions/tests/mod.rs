//! Pods as they are wanted and as they are, and what follows.

mod init_containers;

use serde_json::json;

use super::*;
use crate::pod::{Pod, Resources, RestartPolicy};
use crate::status::{ContainerState, ContainerStatus, PodStatus, SandboxStatus};
use crate::table::{container, exited, in_state, ready_sandbox};

use ContainerState::{Created, Running, Unknown};

/// Three regular containers, as many init containers as asked for; `s…` names a sidecar.
fn pod(policy: RestartPolicy, init: &[&str]) -> Pod {
    let mut pod = Pod::default();
    pod.spec.restart_policy = policy;
    pod.spec.containers = ["a", "b", "c"].map(container).to_vec();
    pod.spec.init_containers = init
        .iter()
        .map(|name| {
            let mut c = container(name);
            if name.starts_with('s') {
                c.restart_policy = Some(crate::pod::ContainerRestartPolicy::Always);
            }
            c
        })
        .collect();
    pod
}

fn observed(containers: Vec<ContainerStatus>) -> Observed {
    Observed {
        status: PodStatus::new(vec![ready_sandbox()], containers),
        ..Observed::default()
    }
}

fn all_running() -> Vec<ContainerStatus> {
    ["a", "b", "c"].map(|n| in_state(n, Running)).to_vec()
}

fn with(mut rows: Vec<ContainerStatus>, status: ContainerStatus) -> Vec<ContainerStatus> {
    rows.retain(|s| s.name != status.name);
    rows.push(status);
    rows
}

/// `(kill pod, create sandbox, init to start, regular to start, killed)`
type Outcome<'a> = (
    bool,
    bool,
    Vec<usize>,
    Vec<usize>,
    Vec<(&'a str, KillReason)>,
);

fn check(what: &str, pod: &Pod, observed: &Observed, expected: &Outcome<'_>) {
    let actions = compute_pod_actions(pod, observed);
    let killed: Vec<_> = actions
        .containers_to_kill
        .iter()
        .map(|k| (k.name.as_str(), k.reason))
        .collect();
    assert_eq!(
        &(
            actions.kill_pod,
            actions.create_sandbox,
            actions.init_containers_to_start.clone(),
            actions.containers_to_start.clone(),
            killed,
        ),
        expected,
        "{what}"
    );
}

#[test]
fn a_pod_without_init_containers_in_its_sandbox() {
    use RestartPolicy::{Always, Never, OnFailure};
    let changed = ContainerStatus {
        hash: None,
        ..in_state("a", Running)
    };
    for (what, policy, statuses, expected) in [
        (
            "all run",
            Always,
            all_running(),
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "none yet",
            Never,
            vec![],
            (false, false, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "one failed, Always",
            Always,
            with(all_running(), exited("b", 1)),
            (false, false, vec![], vec![1], vec![]),
        ),
        (
            "one done, OnFailure",
            OnFailure,
            with(all_running(), exited("b", 0)),
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "one failed, Never",
            Never,
            with(all_running(), exited("b", 1)),
            (false, false, vec![], vec![], vec![]),
        ),
        (
            "all ended, Never",
            Never,
            vec![exited("a", 0), exited("b", 1), exited("c", 2)],
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "one created",
            Never,
            with(all_running(), in_state("b", Created)),
            (false, false, vec![], vec![1], vec![]),
        ),
        (
            "one unknown",
            Never,
            with(all_running(), in_state("b", Unknown)),
            (
                false,
                false,
                vec![],
                vec![1],
                vec![("b", KillReason::Unknown)],
            ),
        ),
        (
            "one changed, even with Never",
            Never,
            with(all_running(), changed),
            (
                false,
                false,
                vec![],
                vec![0],
                vec![("a", KillReason::DefinitionChanged)],
            ),
        ),
    ] {
        check(what, &pod(policy, &[]), &observed(statuses), &expected);
    }
}

#[test]
fn a_new_sandbox() {
    use RestartPolicy::{Always, Never, OnFailure};
    let stopped = SandboxStatus {
        ready: false,
        ..ready_sandbox()
    };
    let all_done = vec![exited("a", 0), exited("b", 0), exited("c", 0)];
    for (what, policy, init, sandboxes, statuses, expected) in [
        (
            "first",
            Never,
            vec![],
            vec![],
            vec![],
            (true, true, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "first, with init",
            Never,
            vec!["i"],
            vec![],
            vec![],
            (true, true, vec![0], vec![], vec![]),
        ),
        (
            "lost, Always",
            Always,
            vec![],
            vec![stopped.clone()],
            all_running(),
            (true, true, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "lost, Never",
            Never,
            vec![],
            vec![stopped.clone()],
            all_running(),
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "lost before any container, Never",
            Never,
            vec![],
            vec![stopped.clone()],
            vec![],
            (true, true, vec![], vec![0, 1, 2], vec![]),
        ),
        (
            "lost, OnFailure, one done",
            OnFailure,
            vec![],
            vec![stopped.clone()],
            with(all_running(), exited("b", 0)),
            (true, true, vec![], vec![0, 2], vec![]),
        ),
        (
            "lost, OnFailure, all done",
            OnFailure,
            vec!["i"],
            vec![stopped.clone()],
            all_done,
            (true, false, vec![], vec![], vec![]),
        ),
        (
            "lost, Always, with init",
            Always,
            vec!["i", "j"],
            vec![stopped],
            all_running(),
            (true, true, vec![0], vec![], vec![]),
        ),
    ] {
        let observed = Observed {
            status: PodStatus::new(sandboxes, statuses),
            ..Observed::default()
        };
        check(what, &pod(policy, &init), &observed, &expected);
    }
}

#[test]
fn probes_of_a_regular_container() {
    use crate::pod::ContainerRestartPolicy as Own;
    for (what, policy, own, probe, start) in [
        (
            "liveness, Always",
            RestartPolicy::Always,
            None,
            KillReason::LivenessProbe,
            vec![1],
        ),
        (
            "liveness, Never",
            RestartPolicy::Never,
            None,
            KillReason::LivenessProbe,
            vec![],
        ),
        (
            "startup, OnFailure",
            RestartPolicy::OnFailure,
            None,
            KillReason::StartupProbe,
            vec![1],
        ),
        (
            "startup, own Never",
            RestartPolicy::Always,
            Some(Own::Never),
            KillReason::StartupProbe,
            vec![],
        ),
        (
            "liveness, own Always",
            RestartPolicy::Never,
            Some(Own::Always),
            KillReason::LivenessProbe,
            vec![1],
        ),
    ] {
        let mut pod = pod(policy, &[]);
        pod.spec.containers[1].restart_policy = own;
        let mut seen = observed(all_running());
        let results = if probe == KillReason::LivenessProbe {
            &mut seen.probes.liveness
        } else {
            &mut seen.probes.startup
        };
        results.insert("b-id".to_owned(), ProbeResult::Failure);
        check(
            what,
            &pod,
            &seen,
            &(false, false, vec![], start, vec![("b", probe)]),
        );
    }
}

#[test]
fn ephemeral_containers_start_once_even_before_init_is_done() {
    let mut pod = pod(RestartPolicy::Always, &["i"]);
    pod.spec.ephemeral_containers = ["e", "f"]
        .map(|name| crate::pod::EphemeralContainer {
            container: container(name),
            target_container_name: String::new(),
        })
        .to_vec();
    let seen = observed(vec![in_state("i", Running), exited("e", 1)]);
    let actions = compute_pod_actions(&pod, &seen);
    assert_eq!(actions.ephemeral_containers_to_start, [1]);
    assert_eq!(actions.containers_to_start, [0_usize; 0]);
}

#[test]
fn changed_resources() {
    let given: Resources =
        serde_json::from_value(json!({"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}))
            .unwrap();
    for (what, wanted, resize_policy, resize, killed) in [
        (
            "the same",
            json!({"requests": {"cpu": "0.1"}, "limits": {"memory": "64Mi"}}),
            json!([]),
            None,
            false,
        ),
        (
            "more cpu",
            json!({"requests": {"cpu": "200m"}, "limits": {"memory": "64Mi"}}),
            json!([]),
            Some((true, false)),
            false,
        ),
        (
            "more memory",
            json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}),
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            Some((false, true)),
            false,
        ),
        (
            "more memory, anew",
            json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}),
            json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]),
            None,
            true,
        ),
    ] {
        let mut pod = pod(RestartPolicy::Never, &[]);
        pod.spec.containers[0].resources = serde_json::from_value(wanted).unwrap();
        pod.spec.containers[0].resize_policy = serde_json::from_value(resize_policy).unwrap();
        let mut seen = observed(all_running());
        seen.actuated.insert("a".to_owned(), given.clone());
        let actions = compute_pod_actions(&pod, &seen);
        let resized = actions
            .containers_to_resize
            .first()
            .map(|r| (r.cpu, r.memory));
        assert_eq!(resized, resize, "{what}");
        let kills: Vec<_> = actions
            .containers_to_kill
            .iter()
            .map(|k| k.reason)
            .collect();
        assert_eq!(
            kills,
            vec![KillReason::Resized; usize::from(killed)],
            "{what}"
        );
        assert_eq!(
            actions.containers_to_start,
            vec![0; usize::from(killed)],
            "{what}"
        );
    }
}

#[test]
fn all_containers_begin_anew_and_the_one_that_asked_goes_last() {
    let mut pod = pod(RestartPolicy::Never, &["i", "s1"]);
    pod.spec.containers[0] = serde_json::from_value(json!({
        "name": "a", "image": "a:1", "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        ]
    }))
    .unwrap();
    let rows = |code| {
        let mut rows = with(all_running(), exited("a", code));
        rows.extend([exited("i", 0), in_state("s1", Running)]);
        rows
    };
    let actions = compute_pod_actions(&pod, &observed(rows(42)));
    let names: Vec<_> = actions
        .containers_to_reset
        .iter()
        .map(|r| r.name.as_str())
        .collect();
    assert_eq!(names, ["b", "c", "i", "s1", "a"]);
    assert!(actions.containers_to_start.is_empty() && !actions.kill_pod);

    let other = compute_pod_actions(&pod, &observed(rows(1)));
    assert!(other.containers_to_reset.is_empty());
}
