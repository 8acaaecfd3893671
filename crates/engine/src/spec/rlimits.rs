//! Resource limits of a container's processes, from the node's configuration.

use std::collections::BTreeMap;

use orlop_oci::Rlimit;

/// The limits, lowered to what this daemon may give.
pub(super) fn list(
    configured: &[Rlimit],
    ceilings: &BTreeMap<String, u64>,
    warnings: &mut Vec<String>,
) -> Vec<Rlimit> {
    let fit = |limit: &Rlimit| match ceilings.get(&limit.kind) {
        Some(&ceiling) if limit.hard > ceiling => {
            warnings.push(format!(
                "{}: {} lowered to {ceiling}: raising it needs CAP_SYS_RESOURCE",
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
