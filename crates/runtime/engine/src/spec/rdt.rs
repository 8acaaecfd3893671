//! Classes of processor caches and memory bandwidth (Intel RDT, AMD QoS). A container joins a class that
//! the administrator made, or that the service made from a file of partitions.

use std::path::Path;

use orlop_oci_types::IntelRdt;
use orlop_rdt::{Class, Mount, Partitions};

use super::Error;
use super::classes::{Kind, asked};
use super::input::{Known, Policy};

/// The usual mount point of resctrl.
const USUAL: &str = "/sys/fs/resctrl";

/// The classes of a partitions file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdtClasses {
    /// The content of the file.
    pub partitions: Partitions,
    /// The reason why the classes could not be made on this node, if so.
    pub problem: Option<String>,
}

impl RdtClasses {
    /// Reads a file of partitions.
    pub fn read(path: &Path) -> Result<Self, String> {
        let partitions = Partitions::read(path).map_err(|error| error.to_string())?;
        Ok(Self {
            partitions,
            problem: None,
        })
    }
}

/// The object that asks for a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    Container,
    Pod,
    Plugin,
}

/// Returns the class that a container asks for, if any.
pub(super) fn class(known: &Known<'_>) -> Result<Option<IntelRdt>, Error> {
    let Some((class, annotation)) = asked(Kind::Rdt, known.config, known.pod_config)? else {
        return Ok(None);
    };
    let asker = if annotation.starts_with("io.kubernetes.cri.") {
        Asker::Container
    } else {
        Asker::Pod
    };
    let field = format!("annotation {annotation}");
    named(class, asker, known.policy, &root()).map_err(|problem| Error::unmet(field, problem))
}

/// Returns the class that a plugin chooses; `None` means the default class.
pub(super) fn of_plugin(
    class: &str,
    field: &str,
    policy: &Policy,
) -> Result<Option<IntelRdt>, Error> {
    named(class, Asker::Plugin, policy, &root()).map_err(|problem| Error::unmet(field, problem))
}

fn root() -> std::path::PathBuf {
    Mount::root().unwrap_or_else(|| USUAL.into())
}

fn named(
    name: &str,
    asker: Asker,
    policy: &Policy,
    resctrl: &Path,
) -> Result<Option<IntelRdt>, String> {
    let of_file = policy.rdt.as_ref();
    let class = of_file.and_then(|own| own.partitions.class(name));
    if let Some(class) = class {
        allowed(class, asker)?;
    } else if !policy.rdt_classes.iter().any(|own| own == name) {
        return Err(no_such(name, policy));
    }
    if let (Some(_), Some(problem)) = (class, of_file.and_then(|own| own.problem.as_ref())) {
        return Err(format!("cannot create class {name:?}: {problem}"));
    }
    if !resctrl.join("schemata").exists() {
        let problem = "the processor has no RDT, or resctrl is not mounted on /sys/fs/resctrl";
        return Err(problem.to_owned());
    }
    // All processes start in the root class.
    if class.is_some_and(Class::is_root) {
        return Ok(None);
    }
    let group = resctrl.join(name);
    if !group.is_dir() {
        let remedy = if class.is_some() {
            "; run `orlop config reload` to create it again"
        } else {
            ""
        };
        return Err(format!(
            "class {name:?} is configured but does not exist: {} is missing{remedy}",
            group.display()
        ));
    }
    Ok(Some(IntelRdt {
        clos_id: name.to_owned(),
        ..IntelRdt::default()
    }))
}

fn allowed(class: &Class, asker: Asker) -> Result<(), String> {
    let (is_denied, who, key) = match asker {
        Asker::Container => (
            class.deny_containers,
            "containers",
            "denyContainerAnnotation",
        ),
        Asker::Pod => (class.deny_pods, "pods", "denyPodAnnotation"),
        Asker::Plugin => return Ok(()),
    };
    if is_denied {
        let name = &class.name;
        return Err(format!(
            "annotations of {who} must not select class {name:?}, because containers.rdt_config \
             sets {key}"
        ));
    }
    Ok(())
}

fn no_such(name: &str, policy: &Policy) -> String {
    let of_file = policy.rdt.iter().flat_map(|own| own.partitions.classes());
    let of_file = of_file.map(|class| class.name.as_str());
    let listed = policy.rdt_classes.iter().map(String::as_str);
    let offered: Vec<&str> = listed.chain(of_file).collect();
    if offered.is_empty() {
        return format!(
            "class {name:?} does not exist: containers.rdt_classes and containers.rdt_config \
             define no classes on this node"
        );
    }
    format!(
        "class {name:?} does not exist; available classes: {}",
        offered.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
partitions:
  p:
    classes:
      gold:
      inner: {kubernetes: {denyPodAnnotation: true}}
      outer: {kubernetes: {denyContainerAnnotation: true}}
      gone:
      DEFAULT:
";

    fn policy() -> Policy {
        let partitions = Partitions::parse(Path::new("rdt.yaml"), FILE).unwrap();
        Policy {
            rdt_classes: vec!["made-by-hand".to_owned()],
            rdt: Some(RdtClasses {
                partitions,
                problem: None,
            }),
            ..Policy::default()
        }
    }

    #[test]
    fn classes_of_a_file_and_of_the_administrator_are_offered() {
        let dir = tempfile::tempdir().unwrap();
        for group in ["gold", "inner", "outer", "made-by-hand", "others"] {
            std::fs::create_dir(dir.path().join(group)).unwrap();
        }
        let mut policy = policy();
        let of = |name: &str, asker: Asker, policy: &Policy| {
            let found = named(name, asker, policy, dir.path())?;
            Ok::<_, String>(found.map(|rdt| rdt.clos_id))
        };
        let missing = of("gold", Asker::Pod, &policy).unwrap_err();
        assert!(missing.contains("resctrl is not mounted"), "{missing}");
        std::fs::write(dir.path().join("schemata"), "").unwrap();
        for (name, asker, expected) in [
            ("gold", Asker::Pod, Ok(Some("gold"))),
            ("made-by-hand", Asker::Pod, Ok(Some("made-by-hand"))),
            ("DEFAULT", Asker::Container, Ok(None)),
            ("inner", Asker::Container, Ok(Some("inner"))),
            ("inner", Asker::Pod, Err("denyPodAnnotation")),
            ("outer", Asker::Pod, Ok(Some("outer"))),
            ("outer", Asker::Container, Err("denyContainerAnnotation")),
            ("outer", Asker::Plugin, Ok(Some("outer"))),
            ("gone", Asker::Pod, Err("orlop config reload")),
            ("others", Asker::Pod, Err("made-by-hand, gold, inner")),
        ] {
            match (of(name, asker, &policy), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{name}"),
                (Err(problem), Err(word)) => assert!(problem.contains(word), "{name}: {problem}"),
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
        policy.rdt.as_mut().unwrap().problem = Some("rdt.yaml:4: no ways".to_owned());
        let problem = of("gold", Asker::Pod, &policy).unwrap_err();
        assert!(problem.contains("rdt.yaml:4: no ways"), "{problem}");
        assert!(of("made-by-hand", Asker::Pod, &policy).is_ok());
        let none = of("gold", Asker::Pod, &Policy::default()).unwrap_err();
        assert!(none.contains("rdt_config define no classes"), "{none}");
    }
}
