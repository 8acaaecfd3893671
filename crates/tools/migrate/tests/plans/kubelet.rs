//! What a kubelet's files say of its runtime, and what they should say.

use orlop_migrate::kubelet_advice;

/// What there is, and whether something has to be done.
fn advice(config: &str, flags: Option<&str>, driver: Option<&str>) -> Vec<(String, bool)> {
    let flags = flags.map(|text| ("flags", text));
    let advice = kubelet_advice(Some(("config", config)), flags, driver);
    let short = |text: String| text.rsplit(' ').next().unwrap_or_default().to_owned();
    advice
        .into_iter()
        .map(|it| (short(it.text), !it.remedy.is_empty()))
        .collect()
}

#[test]
fn a_kubelet_of_containerd_s_is_told_what_to_change() {
    let config =
        "cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n";
    let flags = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/x.sock --v=2\"\n";
    let expected = [
        ("cgroupfs", true),
        ("unix:///run/containerd/containerd.sock", true),
        ("cAdvisor", true),
        ("--container-runtime-endpoint=unix:///run/x.sock", true),
    ];
    let expected = expected.map(|(text, is_to_do)| (text.to_owned(), is_to_do));
    assert_eq!(advice(config, Some(flags), Some("cgroupfs")), expected);
}

#[test]
fn of_several_flags_the_last_one_counts() {
    let config = "cgroupDriver: systemd\nfeatureGates:\n  PodAndContainerStatsFromCRI: true\n";
    let flag = "--container-runtime-endpoint=unix:///run";
    for (last, is_to_do) in [("orlop/orlop.sock", false), ("x.sock", true)] {
        let flags = format!(
            "KUBELET_KUBEADM_ARGS=\"{flag}/y.sock {flag}/orlop/orlop.sock --v=2 {flag}/{last}\"\n"
        );
        let said = advice(config, Some(&flags), None);
        assert_eq!(said.last(), Some(&(format!("{flag}/{last}"), is_to_do)));
    }
}

#[test]
fn nothing_is_left_to_do_where_all_is_said() {
    let config = "cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix:///run/orlop/orlop.sock\n\
                  featureGates:\n  PodAndContainerStatsFromCRI: true\n";
    let said = advice(config, None, Some("systemd"));
    assert!(said.iter().all(|(_, is_to_do)| !is_to_do), "{said:?}");
    assert_eq!(said.len(), 2);
}

#[test]
fn a_kubelet_that_is_told_nothing_and_a_broken_file_are_told_of() {
    let said = advice("featureGates: {}\n", None, None);
    assert_eq!(said.last(), Some(&("file".to_owned(), true)));
    let said = kubelet_advice(Some(("config", "a: [\n")), None, None);
    assert!(said[0].text.starts_with("config:"), "{said:?}");
}
