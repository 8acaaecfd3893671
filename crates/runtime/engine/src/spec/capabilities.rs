//! Capability sets: the default ones, what a request adds and drops, and the privileged case.

use orlop_cri_api::v1;
use orlop_oci_types as oci;

use super::Error;

pub(super) use orlop_oci_types::CAPABILITIES as ALL;

/// Capabilities of a container that asks for nothing: the set of Docker and containerd.
const DEFAULT: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SYS_CHROOT",
    "CAP_MKNOD",
    "CAP_AUDIT_WRITE",
    "CAP_SETFCAP",
];

const FIELD: &str = "config.linux.security_context.capabilities";

/// Returns the capability sets of a container.
///
/// An added capability is put into the bounding, permitted and effective sets. The inheritable set contains
/// only ambient capabilities: otherwise files with inheritable capabilities in an image would grant them to
/// users who were never given them. Dropping wins over adding, and a name wins over `ALL`.
pub(super) fn sets(
    security: &v1::LinuxContainerSecurityContext,
    base: Option<&[&'static str]>,
    available: &[String],
    warnings: &mut Vec<String>,
) -> Result<oci::Capabilities, Error> {
    if security.privileged {
        let all = available.to_vec();
        return Ok(oci::Capabilities {
            bounding: all.clone(),
            effective: all.clone(),
            permitted: all,
            ..oci::Capabilities::default()
        });
    }
    let empty = v1::Capability::default();
    let request = security.capabilities.as_ref().unwrap_or(&empty);
    let mut given = base.unwrap_or(&DEFAULT).to_vec();
    let add = parse(&request.add_capabilities, "add_capabilities")?;
    let drop = parse(&request.drop_capabilities, "drop_capabilities")?;
    let ambient = parse(
        &request.add_ambient_capabilities,
        "add_ambient_capabilities",
    )?;

    if add.all {
        given = ALL.to_vec();
    }
    if drop.all {
        given.clear();
    }
    for name in add.named.iter().chain(&ambient.named) {
        if !given.contains(name) {
            given.push(name);
        }
    }
    given.retain(|name| !drop.named.contains(name));
    let ambient: Vec<&str> = ALL
        .into_iter()
        .filter(|name| given.contains(name))
        .filter(|name| ambient.all || ambient.named.contains(name))
        .collect();

    let missing: Vec<&str> = add
        .named
        .iter()
        .copied()
        .filter(|name| given.contains(name) && !available.iter().any(|own| own == name))
        .collect();
    if !missing.is_empty() {
        warnings.push(format!(
            "{FIELD}.add_capabilities: {} is omitted, because the container runtime itself does \
             not have this capability",
            missing.join(", ")
        ));
    }
    let grant = |names: &[&str]| -> Vec<String> {
        available
            .iter()
            .filter(|own| names.contains(&own.as_str()))
            .cloned()
            .collect()
    };
    let main = grant(&given);
    let ambient = grant(&ambient);
    Ok(oci::Capabilities {
        bounding: main.clone(),
        effective: main.clone(),
        permitted: main,
        inheritable: ambient.clone(),
        ambient,
    })
}

struct Names {
    named: Vec<&'static str>,
    all: bool,
}

/// Parses names in upper or lower case, with or without `CAP_`.
fn parse(names: &[String], list: &str) -> Result<Names, Error> {
    let mut parsed = Names {
        named: Vec::new(),
        all: false,
    };
    for name in names {
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
        if bare == "ALL" {
            parsed.all = true;
            continue;
        }
        let known = ALL
            .into_iter()
            .find(|known| known.strip_prefix("CAP_") == Some(bare));
        parsed.named.push(known.ok_or_else(|| {
            let problem = format!("{name:?} is not a capability");
            Error::invalid(format!("{FIELD}.{list}"), problem)
        })?);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Vec<String> {
        ALL.map(str::to_owned).to_vec()
    }

    fn security(add: &str, drop: &str, ambient: &str) -> v1::LinuxContainerSecurityContext {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        v1::LinuxContainerSecurityContext {
            capabilities: Some(v1::Capability {
                add_capabilities: list(add),
                drop_capabilities: list(drop),
                add_ambient_capabilities: list(ambient),
            }),
            ..Default::default()
        }
    }

    fn made(add: &str, drop: &str, ambient: &str) -> oci::Capabilities {
        sets(
            &security(add, drop, ambient),
            None,
            &everything(),
            &mut Vec::new(),
        )
        .unwrap()
    }

    #[test]
    fn the_default_set_is_that_of_the_peers() {
        let mut expected = DEFAULT.map(str::to_owned).to_vec();
        expected.sort();
        let mut bounding = made("", "", "").bounding;
        bounding.sort();
        assert_eq!(bounding, expected);
        assert!(made("", "", "").inheritable.is_empty());
    }

    #[test]
    fn names_are_added_and_dropped_in_any_spelling() {
        let caps = made("net_admin CAP_SYS_TIME", "chown", "");
        assert!(caps.effective.contains(&"CAP_NET_ADMIN".to_owned()));
        assert!(caps.effective.contains(&"CAP_SYS_TIME".to_owned()));
        assert!(!caps.bounding.contains(&"CAP_CHOWN".to_owned()));
    }

    #[test]
    fn all_yields_to_names() {
        let caps = made("ALL", "chown", "");
        assert_eq!(caps.bounding.len(), ALL.len() - 1);
        let caps = made("NET_BIND_SERVICE", "all", "");
        assert_eq!(caps.permitted, ["CAP_NET_BIND_SERVICE"]);
        assert!(made("", "ALL", "").bounding.is_empty());
    }

    #[test]
    fn ambient_capabilities_are_in_every_set() {
        let caps = made("", "ALL", "NET_ADMIN");
        for set in [
            &caps.bounding,
            &caps.permitted,
            &caps.effective,
            &caps.inheritable,
            &caps.ambient,
        ] {
            assert_eq!(set, &["CAP_NET_ADMIN"]);
        }
        assert!(made("", "NET_ADMIN", "NET_ADMIN").ambient.is_empty());
    }

    #[test]
    fn what_the_runtime_lacks_is_left_out_with_a_warning() {
        let own: Vec<String> = everything()
            .into_iter()
            .filter(|name| name != "CAP_SYS_RESOURCE")
            .collect();
        let mut warnings = Vec::new();
        let caps = sets(
            &security("SYS_RESOURCE KILL", "", ""),
            None,
            &own,
            &mut warnings,
        )
        .unwrap();
        assert!(!caps.bounding.contains(&"CAP_SYS_RESOURCE".to_owned()));
        assert!(warnings[0].contains("CAP_SYS_RESOURCE"), "{warnings:?}");
        let mut quiet = Vec::new();
        sets(&security("ALL", "", ""), None, &own, &mut quiet).unwrap();
        assert!(quiet.is_empty());
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let error = sets(
            &security("FLY", "", ""),
            None,
            &everything(),
            &mut Vec::new(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.linux.security_context.capabilities.add_capabilities: \"FLY\" is not a capability"
        );
    }

    #[test]
    fn privileged_has_all_the_runtime_has() {
        let privileged = v1::LinuxContainerSecurityContext {
            privileged: true,
            ..security("", "ALL", "")
        };
        let caps = sets(&privileged, None, &everything(), &mut Vec::new()).unwrap();
        assert_eq!(caps.bounding, everything());
    }
}
