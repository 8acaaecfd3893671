//! `delete`: removes applied pods from a running node agent.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use orlop_cli::say;

use super::apply;
use super::node::socket::{AgentArgs, encoded};

/// Arguments of `delete`.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    /// Objects to delete: pod NAME…, or pod/NAME…
    #[arg(
        value_name = "OBJECT",
        required_unless_present = "filename",
        conflicts_with = "filename"
    )]
    objects: Vec<String>,

    /// Delete all objects of a manifest file or a directory of manifests; - is standard input
    #[arg(short, long, value_name = "PATH")]
    filename: Vec<PathBuf>,

    /// Namespace of the objects
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,

    #[command(flatten)]
    agent: AgentArgs,
}

impl DeleteArgs {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut good = true;
        for path in apply::manifests(&self.filename)? {
            let (origin, text) = apply::read(&path)?;
            let order = format!("/orlop/v1/delete?origin={}", encoded(&origin));
            good &= apply::show(&self.agent.order(&order, text)?)?;
        }
        for (kind, name) in named(&self.objects)? {
            let order = format!(
                "/orlop/v1/delete?kind={}&namespace={}&name={}",
                encoded(&kind),
                encoded(&self.namespace),
                encoded(&name)
            );
            match self.agent.order(&order, String::new()) {
                Ok(outcome) => good &= apply::show(&outcome)?,
                Err(error) => {
                    say!("{error:#}");
                    good = false;
                }
            }
        }
        Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Parses kinds and names: `pod a b`, or `pod/a deployment/b`.
fn named(objects: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let Some(first) = objects.first() else {
        return Ok(Vec::new());
    };
    if first.contains('/') {
        let mut pairs = Vec::new();
        for object in objects {
            match object.split_once('/') {
                Some((kind, name)) => pairs.push((kind_of(kind), name.to_owned())),
                None => bail!("`{object}` is not in the form KIND/NAME like the other arguments"),
            }
        }
        return Ok(pairs);
    }
    if objects.len() < 2 {
        bail!("no object name given; write `{first} NAME` or `{first}/NAME`");
    }
    let names = objects[1..].iter();
    Ok(names.map(|name| (kind_of(first), name.clone())).collect())
}

/// Resolves kubectl's short and plural names of kinds.
fn kind_of(word: &str) -> String {
    let word = word.to_lowercase();
    match word.as_str() {
        "po" | "pods" => "pod",
        "cm" | "configmaps" => "configmap",
        "secrets" => "secret",
        "deploy" | "deployments" => "deployment",
        "ds" | "daemonsets" => "daemonset",
        "rs" | "replicasets" => "replicaset",
        "sts" | "statefulsets" => "statefulset",
        "jobs" => "job",
        "runtimeclasses" => "runtimeclass",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            named(&words).map(|pairs| {
                let pairs = pairs.iter().map(|(kind, name)| format!("{kind} {name}"));
                pairs.collect::<Vec<_>>().join(", ")
            })
        };
        assert_eq!(named(&["po", "a", "b"]).unwrap(), "pod a, pod b");
        assert_eq!(
            named(&["pod/a", "deploy/b"]).unwrap(),
            "pod a, deployment b"
        );
        assert!(named(&["pod"]).is_err() && named(&["pod/a", "b"]).is_err());
    }
}
