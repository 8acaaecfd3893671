//! Namespace modes of sandboxes and containers.

use orlop_cri_api::v1::{NamespaceMode, NamespaceOption};

use crate::checkpoint::is_id;
use crate::config::NetworkPlugin;
use crate::error::{Error, Result};

const HOST: &str = "host";

/// The engine's namespace modes of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sandbox {
    pub(super) network: String,
    pub(super) ipc: String,
    pub(super) pid: String,
    pub(super) own_network: bool,
}

/// The engine's namespace modes of a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) network: String,
    pub(super) ipc: String,
    pub(super) pid: String,
    pub(super) uts: String,
}

pub(super) fn of_sandbox(
    options: Option<&NamespaceOption>,
    plugin: NetworkPlugin,
) -> Result<Sandbox> {
    let nothing = NamespaceOption::default();
    let options = options.unwrap_or(&nothing);
    no_user_namespace(options)?;
    let own_network = options.network() != NamespaceMode::Node;
    let network = match plugin {
        _ if !own_network => HOST,
        NetworkPlugin::Cni | NetworkPlugin::None => "none",
        NetworkPlugin::Bridge => "default",
    };
    Ok(Sandbox {
        network: network.into(),
        ipc: match options.ipc() {
            NamespaceMode::Node => HOST.into(),
            _ => "shareable".into(),
        },
        // Containers share the sandbox's namespace, so the host's is the only alternative.
        pid: match options.pid() {
            NamespaceMode::Node => HOST.into(),
            _ => String::new(),
        },
        own_network,
    })
}

pub(super) fn of_container(options: Option<&NamespaceOption>, sandbox: &str) -> Result<Container> {
    let nothing = NamespaceOption::default();
    let options = options.unwrap_or(&nothing);
    no_user_namespace(options)?;
    let of_sandbox = format!("container:{sandbox}");
    Ok(Container {
        network: of_sandbox.clone(),
        ipc: of_sandbox.clone(),
        pid: match options.pid() {
            NamespaceMode::Node => HOST.into(),
            NamespaceMode::Pod => of_sandbox,
            NamespaceMode::Container => String::new(),
            NamespaceMode::Target if is_id(&options.target_id) => {
                format!("container:{}", options.target_id)
            }
            NamespaceMode::Target => {
                let field = "config.linux.security_context.namespace_options.target_id";
                return Err(Error::invalid(field, "is not a container ID").into());
            }
        },
        // The UTS namespace follows the network namespace.
        uts: match options.network() {
            NamespaceMode::Node => HOST.into(),
            _ => String::new(),
        },
    })
}

fn no_user_namespace(options: &NamespaceOption) -> Result<()> {
    match &options.userns_options {
        Some(userns) if userns.mode() == NamespaceMode::Pod => Err(Error::Unimplemented(
            "user namespaces per pod: the Docker Engine supports only one user namespace for all \
             containers (userns-remap); run the pod with hostUsers: true"
                .to_owned(),
        )
        .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::UserNamespace;

    use super::*;

    #[test]
    fn the_plugin_decides_who_makes_the_network() {
        let mode = |plugin| of_sandbox(None, plugin).unwrap().network;
        assert_eq!(mode(NetworkPlugin::Cni), "none");
        assert_eq!(mode(NetworkPlugin::None), "none");
        assert_eq!(mode(NetworkPlugin::Bridge), "default");
        let host = NamespaceOption {
            network: NamespaceMode::Node.into(),
            ..Default::default()
        };
        let host = of_sandbox(Some(&host), NetworkPlugin::Bridge).unwrap();
        assert_eq!((&*host.network, host.own_network), ("host", false));
    }

    #[test]
    fn a_container_joins_its_sandbox() {
        let with = |pid: NamespaceMode, target: &str| {
            let options = NamespaceOption {
                pid: pid.into(),
                target_id: target.into(),
                ..Default::default()
            };
            of_container(Some(&options), "abc").map(|modes| modes.pid)
        };
        assert_eq!(with(NamespaceMode::Pod, "").unwrap(), "container:abc");
        assert_eq!(with(NamespaceMode::Container, "").unwrap(), "");
        assert_eq!(with(NamespaceMode::Target, "def").unwrap(), "container:def");
        assert!(with(NamespaceMode::Target, "a/b").is_err());
    }

    #[test]
    fn user_namespaces_are_refused_with_the_reason() {
        let options = NamespaceOption {
            userns_options: Some(UserNamespace {
                mode: NamespaceMode::Pod.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let error = of_sandbox(Some(&options), NetworkPlugin::Cni).unwrap_err();
        assert!(error.to_string().contains("hostUsers"), "{error}");
    }
}
