//! Garbage collection of images.

use std::time::Duration;

use crate::Timestamp;

/// When unused images are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImagePolicy {
    /// Disk usage in percent at which removal starts.
    pub high_percent: u8,
    /// Disk usage in percent at which removal stops.
    pub low_percent: u8,
    /// Younger images are not removed.
    pub min_age: Duration,
    /// Images unused for longer than this are removed, whatever the disk usage.
    pub max_age: Option<Duration>,
}

impl Default for ImagePolicy {
    fn default() -> Self {
        Self {
            high_percent: 85,
            low_percent: 80,
            min_age: Duration::from_mins(2),
            max_age: None,
        }
    }
}

/// The usage of the image file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUsage {
    /// Its size in bytes.
    pub capacity: u64,
    /// Its free bytes.
    pub available: u64,
}

/// An image on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRecord {
    /// Its id.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was first seen.
    pub first_detected: Timestamp,
    /// When a container was last seen to use it; `None` for never.
    pub last_used: Option<Timestamp>,
    /// Whether a container or an image volume uses it now.
    pub in_use: bool,
    /// Whether the runtime pins it.
    pub pinned: bool,
}

/// Returns how many bytes to free, if the disk usage exceeds the threshold.
pub fn bytes_to_free(policy: &ImagePolicy, disk: DiskUsage) -> Option<u64> {
    if disk.capacity == 0 {
        return None;
    }
    let capacity = u128::from(disk.capacity);
    let available = u128::from(disk.available.min(disk.capacity));
    let used_percent = 100 - available * 100 / capacity;
    if used_percent < u128::from(policy.high_percent) {
        return None;
    }
    let wanted = capacity * (100 - u128::from(policy.low_percent.min(100))) / 100;
    u64::try_from(wanted.saturating_sub(available)).ok()
}

/// Chooses the images to remove, in order: those unused for too long, then enough to free `to_free`
/// bytes, the longest unused first.
pub fn images_to_remove<'a>(
    images: &'a [ImageRecord],
    policy: &ImagePolicy,
    to_free: Option<u64>,
    now: Timestamp,
) -> Vec<&'a ImageRecord> {
    let mut unused: Vec<_> = images.iter().filter(|i| !i.in_use && !i.pinned).collect();
    unused.sort_by_key(|i| (i.last_used, i.first_detected, i.id.as_str()));

    let mut left = to_free.unwrap_or(0);
    let mut remove = Vec::new();
    let mut rest = Vec::new();
    for image in unused {
        let idle = now.since(image.last_used.unwrap_or(image.first_detected));
        if policy.max_age.is_some_and(|max| idle > max) {
            left = left.saturating_sub(image.size);
            remove.push(image);
        } else if now.since(image.first_detected) >= policy.min_age {
            rest.push(image);
        }
    }
    for image in rest {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(image.size);
        remove.push(image);
    }
    remove
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_down_to_the_low_mark_from_the_high_mark_on() {
        for (capacity, available, expected) in [
            (1000, 151, Some(49)),
            (1000, 160, None),
            (1000, 150, Some(50)),
            (1000, 0, Some(200)),
            (0, 0, None),
        ] {
            let disk = DiskUsage {
                capacity,
                available,
            };
            assert_eq!(
                bytes_to_free(&ImagePolicy::default(), disk),
                expected,
                "{available} of {capacity}"
            );
        }
    }

    #[test]
    fn each_rule() {
        let image = |id: &str, first: i64, used: Option<i64>| ImageRecord {
            id: id.to_owned(),
            size: 10,
            first_detected: Timestamp::from_secs(first),
            last_used: used.map(Timestamp::from_secs),
            in_use: false,
            pinned: false,
        };
        let mut used = image("used", 0, Some(1000));
        used.in_use = true;
        let mut pinned = image("pinned", 0, None);
        pinned.pinned = true;
        let images = [
            used,
            pinned,
            image("recent", 5, Some(900)),
            image("old", 5, Some(400)),
            image("never", 6, None),
            image("older-never", 4, None),
            image("young", 950, None),
        ];
        let aged = ImagePolicy {
            max_age: Some(Duration::from_secs(500)),
            ..ImagePolicy::default()
        };
        for (what, policy, to_free, expected) in [
            ("nothing to free", ImagePolicy::default(), None, vec![]),
            (
                "a little",
                ImagePolicy::default(),
                Some(5),
                vec!["older-never"],
            ),
            (
                "more",
                ImagePolicy::default(),
                Some(25),
                vec!["older-never", "never", "old"],
            ),
            (
                "all there is",
                ImagePolicy::default(),
                Some(9999),
                vec!["older-never", "never", "old", "recent"],
            ),
            ("by age", aged, None, vec!["older-never", "never", "old"]),
            (
                "by age counts",
                aged,
                Some(40),
                vec!["older-never", "never", "old", "recent"],
            ),
        ] {
            let removed = images_to_remove(&images, &policy, to_free, Timestamp::from_secs(1000));
            let ids: Vec<_> = removed.iter().map(|i| i.id.as_str()).collect();
            assert_eq!(ids, expected, "{what}");
        }
    }
}
