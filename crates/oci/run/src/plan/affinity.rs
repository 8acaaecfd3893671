//! Lists of processors.

use rustix::thread::CpuSet;

use crate::error::{Error, Result};

/// Parses a list like `0-3,7`.
pub(crate) fn cpus(list: &str) -> Result<CpuSet> {
    let mut set = CpuSet::new();
    for number in numbers(list, CpuSet::MAX_CPU)? {
        set.set(number);
    }
    Ok(set)
}

/// Returns the numbers of a list like `0-3,7`, all below a limit.
pub(crate) fn numbers(list: &str, limit: usize) -> Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.trim()
                .parse::<usize>()
                .ok()
                .filter(|&number| number < limit)
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => numbers.extend(first..=last),
            _ => return Err(Error::new(format!("{list:?} is not a list like \"0-3,7\""))),
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_ranges_and_numbers() {
        assert_eq!(numbers("0-2,5", 1024).unwrap(), [0, 1, 2, 5]);
        for wrong in ["a", "3-1", "-1", "1-", "4096"] {
            assert!(numbers(wrong, 1024).is_err(), "{wrong}");
        }
    }
}
