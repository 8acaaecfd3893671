//! Resource limits of a container's processes, from the node's configuration.

use std::collections::BTreeMap;

use orlop_oci_types::Rlimit;

use super::BaseSpec;

/// Merges the limits of the node and a base; the base's win.
pub(super) fn merged(of_node: &[Rlimit], base: Option<&BaseSpec>) -> Vec<Rlimit> {
    let of_base = base.map(BaseSpec::limits).unwrap_or_default();
    let is_replaced = |limit: &&Rlimit| of_base.iter().any(|own| own.kind == limit.kind);
    let kept = of_node.iter().filter(|limit| !is_replaced(limit));
    kept.chain(of_base).cloned().collect()
}

/// Returns the limits, lowered to what this daemon may set.
pub(super) fn list(
    configured: &[Rlimit],
    ceilings: &BTreeMap<String, u64>,
    warnings: &mut Vec<String>,
) -> Vec<Rlimit> {
    let fit = |limit: &Rlimit| match ceilings.get(&limit.kind) {
        Some(&ceiling) if limit.hard > ceiling => {
            warnings.push(format!(
                "{}: {} was lowered to {ceiling}; higher values require CAP_SYS_RESOURCE",
                limit.kind, limit.hard
            ));
            Rlimit {
                kind: limit.kind.clone(),
                hard: ceiling,
                soft: limit.soft.min(ceiling),
            }
        }
        _ => limit.clone(),
    };
    configured.iter().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_above_ones_own_are_lowered_with_a_warning() {
        let limit = |hard, soft| Rlimit {
            kind: "RLIMIT_NOFILE".into(),
            hard,
            soft,
        };
        let ceilings = BTreeMap::from([("RLIMIT_NOFILE".to_owned(), 20_000)]);
        let mut warnings = Vec::new();
        let fitted = list(&[limit(1 << 20, 1024)], &ceilings, &mut warnings);
        assert_eq!(fitted, [limit(20_000, 1024)]);
        assert_eq!(warnings.len(), 1);
        assert_eq!(
            list(&[limit(1 << 20, 1)], &BTreeMap::new(), &mut warnings),
            [limit(1 << 20, 1)]
        );
    }
}
