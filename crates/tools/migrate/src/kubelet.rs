//! Kubelet settings for the runtime: its configuration, and kubeadm's flags.

use orlop_yaml::{Content, Document, Entry, documents};

/// CRI endpoint of orlop.
const ENDPOINT: &str = "unix:///run/orlop/orlop.sock";
const FLAG: &str = "--container-runtime-endpoint=";

/// Advice about the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Current state.
    pub text: String,
    /// What to change; empty if nothing.
    pub remedy: String,
}

/// Checks the kubelet configuration and kubeadm's flags, each with its file name. `driver` is orlop's cgroup driver.
pub fn kubelet_advice(
    config: Option<(&str, &str)>,
    flags: Option<(&str, &str)>,
    driver: Option<&str>,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut say = |text: String, remedy: String| advice.push(Advice { text, remedy });
    let mut is_here = false;
    if let Some((file, text)) = config {
        let document = documents(text).into_iter().next();
        let entries = match document {
            Some(Document::Good(node)) => match node.content {
                Content::Map(entries) => entries.to_vec(),
                _ => Vec::new(),
            },
            Some(Document::Bad(at, why)) => {
                say(
                    format!("{file}:{}: {why}", at.line),
                    "fix the file".to_owned(),
                );
                Vec::new()
            }
            None => Vec::new(),
        };
        let get = |key: &str| entries.iter().find(|entry| entry.key == key);
        match (get("cgroupDriver").and_then(text_of), driver) {
            (Some(theirs), Some(ours)) if theirs != ours => say(
                format!("{file}: cgroupDriver is {theirs}, but the runtime uses {ours}"),
                format!(
                    "set cgroupDriver: {ours}, or cgroup_driver = \"{theirs}\" in the \
                     configuration of orlop"
                ),
            ),
            (Some(theirs), _) => say(format!("{file}: cgroupDriver is {theirs}"), String::new()),
            _ => {}
        }
        if let Some(endpoint) = get("containerRuntimeEndpoint") {
            let text = text_of(endpoint).unwrap_or_default();
            is_here = true;
            say(
                format!(
                    "{file}:{}: containerRuntimeEndpoint is {text}",
                    endpoint.at.line
                ),
                wanted(&text, &format!("set containerRuntimeEndpoint: {ENDPOINT}")),
            );
        }
        let gate =
            get("featureGates").and_then(|gates| gates.value.get("PodAndContainerStatsFromCRI"));
        if !matches!(gate.map(|gate| &gate.content), Some(Content::Bool(true))) {
            say(
                format!("{file}: the kubelet reads container statistics from cAdvisor"),
                "set featureGates: {PodAndContainerStatsFromCRI: true}; cAdvisor supports the \
                 sockets of containerd and CRI-O, but not of orlop"
                    .to_owned(),
            );
        }
    }
    if let Some((file, text)) = flags
        // The last one counts.
        && let Some(at) = text.rfind(FLAG)
    {
        let rest = &text[at + FLAG.len()..];
        let end = rest
            .find(|c: char| c.is_whitespace() || c == '"')
            .unwrap_or(rest.len());
        is_here = true;
        say(
            format!("{file}: {FLAG}{}", &rest[..end]),
            wanted(&rest[..end], &format!("set {FLAG}{ENDPOINT} there")),
        );
    }
    if !is_here {
        say(
            "the runtime endpoint of the kubelet is not configured in a known file".to_owned(),
            format!("start the kubelet with {FLAG}{ENDPOINT}, or set containerRuntimeEndpoint"),
        );
    }
    advice
}

fn wanted(endpoint: &str, remedy: &str) -> String {
    if endpoint == ENDPOINT {
        String::new()
    } else {
        remedy.to_owned()
    }
}

fn text_of(entry: &Entry) -> Option<String> {
    entry.value.text().map(str::to_owned)
}
