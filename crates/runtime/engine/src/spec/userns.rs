//! User namespaces: the id ranges of a request.

use orlop_cri_api::v1;
use orlop_oci_types::IdMapping;

use super::Error;

const FIELD: &str = "config.linux.security_context.namespace_options.userns_options";

/// Id ranges of a pod with its own user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRanges {
    /// User ids.
    pub uids: Vec<IdMapping>,
    /// Group ids.
    pub gids: Vec<IdMapping>,
}

impl IdRanges {
    /// Parses the ranges of a pod's or container's request; `None` if it stays in the node's user namespace.
    /// There is one range for each kind of id, starting at 0 in the container.
    pub fn parse(options: Option<&v1::NamespaceOption>) -> Result<Option<Self>, Error> {
        let Some(userns) = options.and_then(|options| options.userns_options.as_ref()) else {
            return Ok(None);
        };
        match v1::NamespaceMode::try_from(userns.mode) {
            Ok(v1::NamespaceMode::Node) if userns.uids.is_empty() && userns.gids.is_empty() => {
                Ok(None)
            }
            Ok(v1::NamespaceMode::Node) => Err(Error::invalid(
                FIELD,
                "mappings are given, but the mode is NODE",
            )),
            Ok(v1::NamespaceMode::Pod) => Ok(Some(Self {
                uids: one_range(&userns.uids, "uids")?,
                gids: one_range(&userns.gids, "gids")?,
            })),
            _ => {
                let problem = format!("mode {} is not supported; use POD or NODE", userns.mode);
                Err(Error::invalid(FIELD, problem))
            }
        }
    }

    /// Whether a user id of the container is mapped to the node.
    pub(super) fn has_uid(&self, id: u32) -> bool {
        contains(&self.uids, id)
    }

    /// Whether a group id of the container is mapped to the node.
    pub(super) fn has_gid(&self, id: u32) -> bool {
        contains(&self.gids, id)
    }
}

/// Parses the ranges of a single mount.
pub(super) fn mount_ranges(
    mappings: &[v1::IdMapping],
    field: &str,
) -> Result<Vec<IdMapping>, Error> {
    mappings
        .iter()
        .map(|mapping| {
            let past_end = |first: u32| first.checked_add(mapping.length).is_none();
            if mapping.length == 0 || past_end(mapping.host_id) || past_end(mapping.container_id) {
                let problem = format!(
                    "the mapping of {} IDs from {} to {} is not a valid range",
                    mapping.length, mapping.container_id, mapping.host_id
                );
                return Err(Error::invalid(field, problem));
            }
            Ok(IdMapping {
                container_id: mapping.container_id,
                host_id: mapping.host_id,
                size: mapping.length,
            })
        })
        .collect()
}

fn one_range(mappings: &[v1::IdMapping], kind: &str) -> Result<Vec<IdMapping>, Error> {
    let field = format!("{FIELD}.{kind}");
    let [mapping] = mappings else {
        let problem = format!(
            "exactly one mapping is required, but {} are set",
            mappings.len()
        );
        return Err(Error::invalid(field, problem));
    };
    if mapping.container_id != 0 {
        return Err(Error::invalid(field, "ID 0 of the container is not mapped"));
    }
    mount_ranges(mappings, &field)
}

fn contains(ranges: &[IdMapping], id: u32) -> bool {
    ranges.iter().any(|range| {
        id.checked_sub(range.container_id)
            .is_some_and(|n| n < range.size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mode: v1::NamespaceMode, mappings: &[(u32, u32, u32)]) -> v1::NamespaceOption {
        let mappings: Vec<_> = mappings
            .iter()
            .map(|&(container_id, host_id, length)| v1::IdMapping {
                host_id,
                container_id,
                length,
            })
            .collect();
        v1::NamespaceOption {
            userns_options: Some(v1::UserNamespace {
                mode: mode.into(),
                uids: mappings.clone(),
                gids: mappings,
            }),
            ..Default::default()
        }
    }

    #[test]
    fn one_range_from_zero_is_taken() {
        let options = options(v1::NamespaceMode::Pod, &[(0, 1000, 100)]);
        let ranges = IdRanges::parse(Some(&options)).unwrap().unwrap();
        assert_eq!(
            ranges.uids,
            [IdMapping {
                container_id: 0,
                host_id: 1000,
                size: 100
            }]
        );
        assert!(ranges.has_uid(99) && !ranges.has_gid(100));
    }

    #[test]
    fn the_nodes_namespace_has_no_ranges() {
        assert_eq!(IdRanges::parse(None).unwrap(), None);
        assert_eq!(
            IdRanges::parse(Some(&options(v1::NamespaceMode::Node, &[]))).unwrap(),
            None
        );
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        use v1::NamespaceMode::{Container, Node, Pod, Target};
        for (mode, mappings) in [
            (Pod, &[][..]),
            (Pod, &[(0, 1000, 100), (0, 2000, 100)]),
            (Pod, &[(1, 1000, 100)]),
            (Pod, &[(0, 1000, 0)]),
            (Pod, &[(0, u32::MAX, 2)]),
            (Node, &[(0, 1000, 100)]),
            (Container, &[]),
            (Target, &[]),
        ] {
            let result = IdRanges::parse(Some(&options(mode, mappings)));
            assert!(
                matches!(result, Err(Error::InvalidArgument { .. })),
                "{mode:?}"
            );
        }
    }
}
