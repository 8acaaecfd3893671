//! Cgroup names in the kubelet's format.

use orlop_kubelet_rules::cri_config::QosClass;

/// The name of a cgroup: its components from the root down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<String>);

impl Name {
    pub(super) fn new(root: &str, class: Option<QosClass>, uid: Option<&str>) -> Self {
        let mut parts: Vec<String> = root
            .split('/')
            .filter(|part| !part.is_empty() && *part != "." && *part != "..")
            .map(str::to_owned)
            .collect();
        parts.push("kubepods".to_owned());
        match class {
            Some(QosClass::Burstable) => parts.push("burstable".to_owned()),
            Some(QosClass::BestEffort) => parts.push("besteffort".to_owned()),
            Some(QosClass::Guaranteed) | None => {}
        }
        if let Some(uid) = uid {
            parts.push(format!("pod{uid}"));
        }
        Self(parts)
    }

    /// Returns the name as a path: `/kubepods/burstable/pod1-2`.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.0.join("/"))
    }

    /// Returns the name as a slice: `kubepods-burstable-pod1_2.slice`.
    pub(super) fn slice(&self) -> String {
        slice(&self.0)
    }

    /// Returns the path that systemd gives the slice: one parent slice for each component.
    pub(super) fn slice_path(&self) -> String {
        let slices: Vec<_> = (1..=self.0.len()).map(|n| slice(&self.0[..n])).collect();
        format!("/{}", slices.join("/"))
    }
}

fn slice(parts: &[String]) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| part.trim_end_matches(".slice").replace('-', "_"))
        .collect();
    parts.join("-") + ".slice"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_both_drivers() {
        let rows = [
            (
                Name::new("/", None, None),
                "/kubepods",
                "kubepods.slice",
                "/kubepods.slice",
            ),
            (
                Name::new("/", Some(QosClass::Burstable), Some("1-2")),
                "/kubepods/burstable/pod1-2",
                "kubepods-burstable-pod1_2.slice",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",
            ),
            (
                Name::new("/a/b/", Some(QosClass::Guaranteed), Some("3")),
                "/a/b/kubepods/pod3",
                "a-b-kubepods-pod3.slice",
                "/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod3.slice",
            ),
        ];
        for (name, path, slice, slice_path) in rows {
            assert_eq!(name.path(), path);
            assert_eq!(name.slice(), slice);
            assert_eq!(name.slice_path(), slice_path);
        }
    }
}
