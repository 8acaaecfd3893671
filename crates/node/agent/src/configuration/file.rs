//! Reads a `KubeletConfiguration`, and warns about fields that have no effect.

use std::path::{Path, PathBuf};

use orlop_kuberuntime::text_file::read_text;
use orlop_yaml::{Content, Document, documents};
use serde::Deserialize;
use thiserror::Error;

use super::gates::has_effect;
use super::kubelet::{KubeletConfiguration, SCHEMA};
use super::setting::Setting as _;
use crate::document::check;

/// Size limit of a configuration in bytes.
const LARGEST: u64 = 1 << 20;

/// The fields that every configuration starts with.
const HEAD: [(&str, &str); 2] = [
    ("apiVersion", "kubelet.config.k8s.io/v1beta1"),
    ("kind", "KubeletConfiguration"),
];

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The content is invalid.
    #[error("{}", Lines(.0))]
    Wrong(Vec<FileRemark>),
}

/// A remark about a line of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRemark {
    /// The file.
    pub path: PathBuf,
    /// The line number, from 1.
    pub line: usize,
    /// The message.
    pub text: String,
}

impl std::fmt::Display for FileRemark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.text)
    }
}

struct Lines<'r>(&'r [FileRemark]);

impl std::fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, remark) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{remark}")?;
        }
        Ok(())
    }
}

/// Reads a `KubeletConfiguration` in YAML or JSON; also returns the fields that are set but have no
/// effect.
pub fn read_configuration(
    path: &Path,
) -> Result<(KubeletConfiguration, Vec<FileRemark>), ConfigurationError> {
    let unreadable = |source| ConfigurationError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let text = read_text(path, LARGEST).map_err(unreadable)?;
    parse(path, &text)
}

fn parse(
    path: &Path,
    text: &str,
) -> Result<(KubeletConfiguration, Vec<FileRemark>), ConfigurationError> {
    let remark = |line, text| FileRemark {
        path: path.to_owned(),
        line,
        text,
    };
    let wrong = |line, text| ConfigurationError::Wrong(vec![remark(line, text)]);
    let mut found = documents(text).into_iter();
    let node = match (found.next(), found.next()) {
        (Some(Document::Good(node)), None) => node,
        (Some(Document::Bad(at, why)), _) | (_, Some(Document::Bad(at, why))) => {
            return Err(wrong(at.line, why));
        }
        (None, _) => return Err(wrong(1, "the file is empty".to_owned())),
        (_, Some(Document::Good(second))) => {
            let text = "a configuration file must contain exactly one document".to_owned();
            return Err(wrong(second.at.line, text));
        }
    };
    for (field, expected) in HEAD {
        let value = node.get(field);
        if value.and_then(|value| value.text()) != Some(expected) {
            let line = value.map_or(node.at.line, |value| value.at.line);
            return Err(wrong(line, format!("{field} must be {expected}")));
        }
    }
    let checked = check(&SCHEMA, "KubeletConfiguration", &node);
    let mut problems: Vec<FileRemark> = checked
        .unknown
        .into_iter()
        .map(|it| remark(it.at.line, it.text))
        .collect();
    let mistakes = checked.wrong.into_iter();
    problems.extend(mistakes.map(|it| remark(it.at.line, format!("{}: {}", it.path, it.text))));
    problems.sort_by_key(|it| it.line);
    if !problems.is_empty() {
        return Err(ConfigurationError::Wrong(problems));
    }
    let configuration = KubeletConfiguration::deserialize(&checked.value)
        .map_err(|error| wrong(node.at.line, error.to_string()))?
        .without_zeros();
    let mut idle = Vec::new();
    if let Content::Map(entries) = &node.content {
        for entry in entries.iter() {
            let is_idle = !KubeletConfiguration::has_effect(&entry.key)
                && HEAD.iter().all(|(field, _)| *field != entry.key);
            if is_idle && entry.value.content != Content::Null {
                let text = format!(
                    "the kubelet field {} has no effect on a standalone node",
                    entry.key
                );
                idle.push(remark(entry.at.line, text));
            }
            if entry.key == "featureGates"
                && let Content::Map(gates) = &entry.value.content
            {
                let idle_gates = gates.iter().filter(|gate| !has_effect(&gate.key));
                idle.extend(idle_gates.map(|gate| {
                    let text = format!(
                        "the feature gate {} has no effect on a standalone node",
                        gate.key
                    );
                    remark(gate.at.line, text)
                }));
            }
        }
    }
    Ok((configuration, idle))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orlop_testkit::said_of_hostile_files;

    use super::*;

    const START: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn read(body: &str) -> Result<(KubeletConfiguration, Vec<FileRemark>), ConfigurationError> {
        parse(Path::new("k.yaml"), &format!("{START}{body}"))
    }

    #[test]
    fn a_real_configuration_is_read() {
        let (configuration, idle) = read(
            "address: 0.0.0.0\nport: 10250\nstaticPodPath: /etc/kubernetes/manifests\n\
             fileCheckFrequency: 5s\nhttpCheckFrequency: 0s\nauthentication:\n  anonymous: \
             {enabled: true}\n  webhook: {enabled: false, cacheTTL: 0s}\n  x509: {clientCAFile: \
             /etc/ca.crt}\nauthorization: {mode: AlwaysAllow}\ncgroupDriver: systemd\n\
             clusterDNS: [10.96.0.10]\nevictionHard: {memory.available: 5%}\n\
             containerLogMaxSize: 5Mi\ncrashLoopBackOff: {maxContainerRestartPeriod: 30s}\n\
             rotateCertificates: true\nlogging: {verbosity: 2}\nregisterNode: false\n\
             featureGates:\n  MemoryQoS: true\n  DynamicResourceAllocation: true\n",
        )
        .unwrap();
        assert_eq!(configuration.file_check_frequency, Duration::from_secs(5));
        assert!(configuration.authentication.anonymous.enabled);
        assert_eq!(
            configuration.authentication.x509.client_ca_file,
            "/etc/ca.crt"
        );
        assert_eq!(configuration.container_log_max_size.units(), 5 << 20);
        assert_eq!(
            configuration
                .crash_loop_back_off
                .max_container_restart_period,
            Some(Duration::from_secs(30))
        );
        assert_eq!(configuration.max_pods, 110);
        assert_eq!(configuration.http_check_frequency, Duration::from_secs(20));
        let idle: Vec<_> = idle.iter().map(|it| (it.line, it.text.as_str())).collect();
        assert_eq!(configuration.logging.verbosity, 2);
        assert_eq!(idle.len(), 3, "{idle:?}");
        assert!(idle[2].0 == 23 && idle[2].1.contains("DynamicResourceAllocation"));
        assert!(configuration.feature_gates["MemoryQoS"]);
        assert_eq!(idle[0].0, 18);
        assert!(idle[0].1.contains("rotateCertificates"), "{idle:?}");
    }

    #[test]
    fn the_example_is_good() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../examples/kubelet-config.yaml"
        );
        let (configuration, idle) = read_configuration(Path::new(path)).unwrap();
        assert_eq!(idle, []);
        assert_eq!(configuration.static_pod_path, "/etc/orlop/manifests");
    }

    #[test]
    fn mistakes_name_their_lines() {
        for (body, line, word) in [
            ("prot: 1\n", 3, "unknown field \"prot\""),
            ("port: many\n", 3, "port"),
            ("\nauthentication: {x508: {}}\n", 4, "authentication.x508"),
            ("syncFrequency: 5\n", 3, "1m30s"),
            ("address: here\n", 1, "IP"),
            ("a: [\n", 3, ""),
        ] {
            let ConfigurationError::Wrong(remarks) = read(body).unwrap_err() else {
                panic!("{body}");
            };
            assert!(remarks[0].line.abs_diff(line) <= 1, "{body}: {remarks:?}");
            assert!(remarks[0].text.contains(word), "{body}: {remarks:?}");
        }
        assert!(parse(Path::new("k"), "kind: Pod\n").is_err());
        assert!(parse(Path::new("k"), "").is_err());
    }

    #[test]
    fn what_is_no_configuration_is_told_and_not_waited_for() {
        let [large, pipe] = said_of_hostile_files("kubelet.yaml", |path| {
            read_configuration(path).expect_err("an error").to_string()
        });
        assert!(
            large.contains("DIR/kubelet.yaml: larger than the limit of 1048576"),
            "{large}"
        );
        assert!(
            pipe.contains("DIR/kubelet.yaml: not a regular file"),
            "{pipe}"
        );
    }
}
