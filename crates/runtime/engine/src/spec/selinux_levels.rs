//! SELinux levels: a pair of categories for each pod, so that pods cannot access each other's files.

use std::collections::BTreeMap;

/// Number of categories in the kernel's policies, `c0` to `c1023`.
pub const CATEGORIES: u16 = 1024;

/// Number of random attempts before all levels are searched.
const TRIES: usize = 64;

/// The levels in use, each with the number of its pods: several pods may ask for the same one.
#[derive(Debug, Default)]
pub struct Levels {
    used: BTreeMap<(u16, u16), u32>,
}

impl Levels {
    /// Allots an unused level of that many categories, as `s0:c12,c34`; `None` if all are used.
    pub fn allot(&mut self, categories: u16) -> Option<String> {
        let categories = categories.clamp(2, CATEGORIES);
        let category = || rand::random_range(0..categories);
        let random = std::iter::repeat_with(|| (category(), category()))
            .take(TRIES)
            .map(|(a, b)| (a.min(b), a.max(b)));
        // If nearly all are in use, random attempts fail.
        let all = (0..categories).flat_map(|a| (a + 1..categories).map(move |b| (a, b)));
        let (a, b) = random
            .chain(all)
            .find(|pair| pair.0 != pair.1 && !self.used.contains_key(pair))?;
        self.used.insert((a, b), 1);
        Some(format!("s0:c{a},c{b}"))
    }

    /// Reserves the level of a pod of an earlier run, or a requested one.
    pub fn reserve(&mut self, level: &str) {
        if let Some(pair) = pair(level) {
            *self.used.entry(pair).or_default() += 1;
        }
    }

    /// Releases a level; it is free once its last pod has released it.
    pub fn release(&mut self, level: &str) {
        let Some(pair) = pair(level) else { return };
        match self.used.get_mut(&pair) {
            Some(pods) if *pods > 1 => *pods -= 1,
            _ => drop(self.used.remove(&pair)),
        }
    }
}

/// Returns the pair of a level; levels of another form are never allotted.
fn pair(level: &str) -> Option<(u16, u16)> {
    let (a, b) = level.split_once(':')?.1.split_once(',')?;
    let category = |text: &str| text.strip_prefix('c')?.parse::<u16>().ok();
    let (a, b) = (category(a)?, category(b)?);
    (a != b).then_some((a.min(b), a.max(b)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_level_that_several_pods_asked_for_is_free_after_the_last_of_them() {
        let mut levels = Levels::default();
        let all = (0..CATEGORIES).flat_map(|a| (a + 1..CATEGORIES).map(move |b| (a, b)));
        levels.used = all
            .filter(|pair| *pair != (3, 7))
            .map(|pair| (pair, 1))
            .collect();
        levels.reserve("s0:c3,c7");
        levels.reserve("s0:c7,c3");
        levels.release("s0:c3,c7");
        assert_eq!(levels.allot(CATEGORIES), None, "another pod still has it");
        levels.release("s0:c3,c7");
        assert_eq!(levels.allot(CATEGORIES).as_deref(), Some("s0:c3,c7"));
        // Extra releases have no effect on later reservations.
        levels.release("s0:c3,c7");
        levels.release("s0:c3,c7");
        levels.reserve("s0:c3,c7");
        levels.release("s0:c3,c7");
        assert!(levels.allot(CATEGORIES).is_some());
    }

    #[test]
    fn levels_are_of_the_categories_that_are_given() {
        let mut levels = Levels::default();
        let taken: BTreeSet<_> = std::iter::from_fn(|| levels.allot(3)).collect();
        let all = ["s0:c0,c1", "s0:c0,c2", "s0:c1,c2"].map(str::to_owned);
        assert_eq!(taken, all.into());
        assert!(levels.allot(4).is_some());
    }

    #[test]
    fn no_two_pods_have_the_same_level() {
        let mut levels = Levels::default();
        let mut seen = BTreeSet::new();
        for _ in 0..2000 {
            let level = levels.allot(CATEGORIES).unwrap();
            let (a, b) = pair(&level).unwrap();
            assert!(a < b && b < CATEGORIES, "{level}");
            assert!(seen.insert(level));
        }
    }

    #[test]
    fn a_reserved_level_is_not_given_away_until_released() {
        let mut levels = Levels::default();
        // All but one.
        let all = (0..CATEGORIES).flat_map(|a| (a + 1..CATEGORIES).map(move |b| (a, b)));
        levels.used = all
            .filter(|pair| *pair != (3, 7))
            .map(|pair| (pair, 1))
            .collect();
        levels.reserve("s0:c7,c3");
        assert_eq!(levels.allot(CATEGORIES), None);
        levels.release("s0:c7,c3");
        assert_eq!(levels.allot(CATEGORIES).as_deref(), Some("s0:c3,c7"));
        levels.reserve("s0");
        levels.release("s0:c1.c5");
    }
}
