//! The number of threads that Go programs in a container run at once.

use orlop_oci_types::Cpu;

/// The environment variable that Go reads.
pub(super) const NAME: &str = "GOMAXPROCS";

/// The `cpu.shares` of one CPU.
const SHARES: u64 = 1024;

/// Returns the number for a container: its CPU limit, else its CPU request, and at least `least`.
pub(super) fn number(cpu: Option<&Cpu>, least: u64) -> u64 {
    let quota = cpu.and_then(|cpu| {
        let quota = u64::try_from(cpu.quota?).ok().filter(|quota| *quota > 0)?;
        let period = cpu.period.filter(|period| *period > 0).unwrap_or(100_000);
        Some(quota.div_ceil(period))
    });
    let requested = || {
        cpu.and_then(|cpu| cpu.shares)
            .map(|shares| shares.div_ceil(SHARES))
    };
    quota.or_else(requested).unwrap_or(0).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_comes_before_a_request_and_neither_goes_below_the_least() {
        let cpu = |quota, shares| Cpu {
            quota,
            shares,
            period: Some(100_000),
            ..Cpu::default()
        };
        for (cpu, expected) in [
            (cpu(Some(350_000), Some(1024)), 4),
            (cpu(Some(-1), Some(2049)), 3),
            (cpu(None, Some(5120)), 5),
            (cpu(None, Some(2)), 2),
            (cpu(None, None), 2),
        ] {
            assert_eq!(number(Some(&cpu), 2), expected, "{cpu:?}");
        }
        assert_eq!(number(None, 3), 3);
    }
}
