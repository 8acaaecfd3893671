//! Conversion of CPU and IO weights from version 1 to version 2.

/// Converts CPU shares to `cpu.weight`.
///
/// The curve fits both ends and the defaults (2 → 1, 1024 → 100, 262144 → 10000), as in current OCI runtimes. The
/// linear formula of older ones gave 1024 shares a weight of 39.
pub fn cpu_weight(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        _ => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}

/// Converts `cpu.weight` to the lowest CPU shares that give this weight.
pub fn cpu_shares(weight: u64) -> u64 {
    let (mut low, mut high) = (2, 262_144);
    while low < high {
        let middle = u64::midpoint(low, high);
        if cpu_weight(middle) < weight {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Converts a block IO weight between 10 and 1000 to `io.weight`.
pub fn io_weight(blkio: u16) -> u64 {
    1 + (u64::from(blkio.clamp(10, 1000)) - 10) * 9999 / 990
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_defaults_meet() {
        for (shares, weight) in [
            (0, 1),
            (2, 1),
            (3, 2),
            (1024, 100),
            (262_144, 10_000),
            (u64::MAX, 10_000),
        ] {
            assert_eq!(cpu_weight(shares), weight, "{shares}");
        }
        assert_eq!(io_weight(10), 1);
        assert_eq!(io_weight(1000), 10_000);
        assert_eq!(io_weight(500), 4950);
    }

    #[test]
    fn more_shares_never_weigh_less_and_lead_back() {
        let mut last = 0;
        for shares in (2..262_144).step_by(97) {
            let weight = cpu_weight(shares);
            assert!(weight >= last, "{shares}");
            assert!(cpu_shares(weight) <= shares && cpu_weight(cpu_shares(weight)) == weight);
            last = weight;
        }
    }
}
