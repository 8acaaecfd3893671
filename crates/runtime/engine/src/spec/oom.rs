//! The out-of-memory score adjustment of a container.

use super::Error;

/// The range that the kernel accepts (`linux/oom.h`).
const RANGE: std::ops::RangeInclusive<i64> = -1000..=1000;

/// Returns the requested adjustment, or the lowest one this daemon may set.
pub(super) fn score_adj(
    asked: i64,
    floor: Option<i32>,
    warnings: &mut Vec<String>,
) -> Result<i32, Error> {
    const FIELD: &str = "config.linux.resources.oom_score_adj";
    let asked = i32::try_from(asked)
        .ok()
        .filter(|asked| RANGE.contains(&i64::from(*asked)));
    let Some(asked) = asked else {
        return Err(Error::invalid(FIELD, "must be between -1000 and 1000"));
    };
    match floor {
        Some(floor) if asked < floor => {
            warnings.push(format!(
                "{FIELD}: {asked} was raised to {floor}; lower values require CAP_SYS_RESOURCE"
            ));
            Ok(floor)
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_below_ones_own_needs_the_capability() {
        for (asked, floor, set, warned) in [
            (-998, None, -998, 0),
            (-998, Some(0), 0, 1),
            (1000, Some(0), 1000, 0),
            (0, Some(0), 0, 0),
        ] {
            let mut warnings = Vec::new();
            assert_eq!(score_adj(asked, floor, &mut warnings).unwrap(), set);
            assert_eq!(warnings.len(), warned);
        }
    }

    #[test]
    fn a_score_out_of_range_is_refused() {
        for bad in [-1001, 1001, i64::MAX] {
            assert!(score_adj(bad, None, &mut Vec::new()).is_err(), "{bad}");
        }
    }
}
