//! The class of a container, from the annotations of containerd and CRI-O.

use orlop_cri_api::v1;

use super::Error;

/// A kind of class, as annotations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Classes of block IO.
    BlockIo,
    /// Classes of processor caches and memory bandwidth.
    Rdt,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::BlockIo => "blockio",
            Self::Rdt => "rdt",
        }
    }
}

/// Returns the class that a container asks for and the annotation that names it: its own, the pod's for
/// this container, or the pod's for all.
pub(super) fn asked<'a>(
    kind: Kind,
    config: &'a v1::ContainerConfig,
    pod: &'a v1::PodSandboxConfig,
) -> Result<Option<(&'a str, String)>, Error> {
    let word = kind.word();
    let container = config
        .metadata
        .as_ref()
        .map_or("", |metadata| metadata.name.as_str());
    let own = format!("io.kubernetes.cri.{word}-class");
    let of_one = format!("{word}.resources.beta.kubernetes.io/container.{container}");
    let of_all = format!("{word}.resources.beta.kubernetes.io/pod");
    for (annotations, name) in [
        (&config.annotations, own),
        (&pod.annotations, of_one),
        (&pod.annotations, of_all),
    ] {
        let Some(class) = annotations.get(&name) else {
            continue;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if class.is_empty() || class.starts_with('.') || !class.chars().all(plain) {
            let problem = format!("{class:?} is not a valid class name");
            return Err(Error::invalid(format!("annotation {name}"), problem));
        }
        return Ok(Some((class, name)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_annotation_decides() {
        let mut config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata {
                name: "web".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut pod = v1::PodSandboxConfig::default();
        let class = |config: &v1::ContainerConfig, pod: &v1::PodSandboxConfig| {
            let found = asked(Kind::BlockIo, config, pod).unwrap();
            found.map(|(class, _)| class.to_owned())
        };
        assert_eq!(class(&config, &pod), None);
        for (name, value) in [
            ("blockio.resources.beta.kubernetes.io/pod", "all"),
            ("blockio.resources.beta.kubernetes.io/container.web", "web"),
            ("blockio.resources.beta.kubernetes.io/container.db", "db"),
            ("rdt.resources.beta.kubernetes.io/pod", "cache"),
        ] {
            pod.annotations.insert(name.into(), value.into());
        }
        assert_eq!(class(&config, &pod).as_deref(), Some("web"));
        let own = "io.kubernetes.cri.blockio-class";
        config.annotations.insert(own.into(), "mine".into());
        assert_eq!(class(&config, &pod).as_deref(), Some("mine"));
        config.annotations.insert(own.into(), "../x".into());
        assert!(asked(Kind::BlockIo, &config, &pod).is_err());
    }
}
