//! Pod and container configurations in files, as JSON or YAML.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use orlop_cri_api::json;
use orlop_cri_api::v1::{ContainerConfig, PodSandboxConfig};

/// Size limit of a configuration file.
const LARGEST: u64 = 4 << 20;

/// Reads a pod configuration; `-` is standard input.
pub(crate) fn pod(path: &Path) -> anyhow::Result<PodSandboxConfig> {
    let mut config: PodSandboxConfig = read(path)?;
    let Some(metadata) = &mut config.metadata else {
        bail!(
            "{} has no metadata; a pod needs a name and a namespace",
            path.display()
        );
    };
    if metadata.name.is_empty() || metadata.namespace.is_empty() {
        bail!(
            "the metadata in {} has no name or no namespace",
            path.display()
        );
    }
    if metadata.uid.is_empty() {
        let uid = orlop_fs::read_kernel_text("/proc/sys/kernel/random/uuid");
        uid.context("cannot generate a UID for the pod")?
            .trim()
            .clone_into(&mut metadata.uid);
    }
    Ok(config)
}

/// Reads a container configuration; `-` is standard input.
pub(crate) fn container(path: &Path) -> anyhow::Result<ContainerConfig> {
    let mut config: ContainerConfig = read(path)?;
    if config
        .metadata
        .as_ref()
        .is_none_or(|metadata| metadata.name.is_empty())
    {
        bail!("{} has no name in its metadata", path.display());
    }
    let Some(image) = config
        .image
        .as_mut()
        .filter(|image| !image.image.is_empty())
    else {
        bail!("{} has no image; set image.image", path.display());
    };
    if image.user_specified_image.is_empty() {
        image.user_specified_image.clone_from(&image.image);
    }
    Ok(config)
}

fn read<M: prost::Name + Default>(path: &Path) -> anyhow::Result<M> {
    let read = if path == Path::new("-") {
        orlop_fs::read_whole_text(std::io::stdin(), LARGEST)
    } else {
        fs::File::open(path).and_then(|file| orlop_fs::read_whole_text(file, LARGEST))
    };
    let text = read.with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

fn parse<M: prost::Name + Default>(text: &str, source: &str) -> anyhow::Result<M> {
    let value: serde_json::Value = if text.trim_start().starts_with('{') {
        serde_json::from_slice(text.as_bytes())
            .with_context(|| format!("{source} is not valid JSON"))?
    } else {
        orlop_yaml::from_str(text).with_context(|| format!("{source} is not valid YAML"))?
    };
    let mut unknown = Vec::new();
    let message =
        json::read(&value, &mut unknown).with_context(|| format!("cannot use {source}"))?;
    for field in unknown {
        say!("warning: {source}: unknown field `{field}` is ignored");
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn json_and_yaml_say_the_same() {
        let json = file(
            r#"{"metadata": {"name": "a", "namespace": "n", "uid": "u", "attempt": 2},
                "log_directory": "/tmp", "linux": {"sysctls": {"net.x": "1"}}}"#,
        );
        let yaml = file(
            "metadata:\n  name: a\n  namespace: n\n  uid: u\n  attempt: 2\n\
             log_directory: /tmp\nlinux:\n  sysctls:\n    net.x: \"1\"\n",
        );
        let config = pod(json.path()).unwrap();
        assert_eq!(config, pod(yaml.path()).unwrap());
        assert_eq!(config.metadata.unwrap().attempt, 2);
    }

    #[test]
    fn a_pod_without_uid_gets_one() {
        let config = pod(file("metadata: {name: a, namespace: n}\n").path()).unwrap();
        assert_eq!(config.metadata.unwrap().uid.len(), 36);
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = |text: &str| format!("{:#}", container(file(text).path()).unwrap_err());
        assert!(error("image: {image: busybox}\n").contains("name"));
        assert!(error("metadata: {name: a}\n").contains("image"));
        assert!(error("metadata: [1]\n").contains("`metadata`: expected an object"));
        assert!(error("{").contains("JSON"));
        let config = container(file("metadata: {name: a}\nimage: {image: b}\n").path()).unwrap();
        assert_eq!(config.image.unwrap().user_specified_image, "b");
    }
}
