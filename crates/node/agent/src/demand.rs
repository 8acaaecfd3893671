//! Resource requests of pods.

use orlop_kubelet_rules::pod::{Container, Pod, Quantity, ResourceList, Resources};

/// Returns the resource requests of a pod: the most that its containers need at the same time, plus
/// its overhead. Sidecars run alongside all containers after them; other init containers run one by
/// one.
pub(crate) fn requests(pod: &Pod) -> ResourceList {
    let of = |container: &Container| asked(&container.resources);
    let mut sidecars = ResourceList::new();
    let mut most = ResourceList::new();
    for container in &pod.spec.init_containers {
        if container.is_sidecar() {
            add(&mut sidecars, &of(container));
            raise(&mut most, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &of(container));
            raise(&mut most, &now);
        }
    }
    let mut regular = sidecars;
    for container in &pod.spec.containers {
        add(&mut regular, &of(container));
    }
    raise(&mut most, &regular);
    if let Some(whole) = &pod.spec.resources {
        // Pod-level requests replace the sum of the containers.
        most.extend(asked(whole));
    }
    add(&mut most, &pod.spec.overhead);
    most
}

fn asked(resources: &Resources) -> ResourceList {
    let mut asked = resources.limits.clone();
    asked.extend(
        resources
            .requests
            .iter()
            .map(|(name, amount)| (name.clone(), *amount)),
    );
    asked
}

fn add(to: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = to.get(name).copied().unwrap_or_default().plus(*amount);
        to.insert(name.clone(), sum);
    }
}

fn raise(to: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let most = to.get(name).copied().unwrap_or_default().max(*amount);
        to.insert(name.clone(), most);
    }
}

/// Returns the amount of a resource in a list, or zero.
pub(crate) fn amount(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_that_is_needed_at_one_time() {
        let container = |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| {
            let mut container = container("s", cpu);
            container["restartPolicy"] = json!("Always");
            container
        };
        for (init, regular, overhead, expected) in [
            (
                vec![],
                vec![container("a", "1"), container("b", "500m")],
                "0",
                1500,
            ),
            (
                vec![container("i", "3")],
                vec![container("a", "1")],
                "0",
                3000,
            ),
            (
                vec![container("i", "1"), container("j", "2")],
                vec![container("a", "1")],
                "0",
                2000,
            ),
            (
                vec![sidecar("1"), container("i", "1")],
                vec![container("a", "500m")],
                "0",
                2000,
            ),
            (
                vec![container("i", "2"), sidecar("1")],
                vec![container("a", "2")],
                "250m",
                3250,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": {
                "initContainers": init, "containers": regular, "overhead": {"cpu": overhead}}}))
            .unwrap();
            assert_eq!(amount(&requests(&pod), "cpu").milli(), expected);
        }
    }
}
