//! Allocation of id ranges to pods with their own user namespace.

use std::collections::BTreeMap;

use orlop_cri_api::v1;

/// A kubelet's ranges are multiples of this number of ids, the usual size for one user.
const UNIT: u32 = 65536;

/// A range of ids of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first id.
    pub first: u32,
    /// The number of ids.
    pub length: u32,
}

/// The node's ids in ranges of equal size, and their pods.
#[derive(Debug)]
pub struct Ranges {
    first: u32,
    count: u32,
    per_pod: u32,
    by_pod: BTreeMap<String, u32>,
}

impl Ranges {
    /// Divides the node's ids; fails if there are too few for `max_pods`.
    pub fn new(ids: IdRange, per_pod: u32, max_pods: u32) -> Result<Self, String> {
        let IdRange { first, length } = ids;
        if per_pod < UNIT || !per_pod.is_multiple_of(UNIT) {
            return Err(format!(
                "userNamespaces.idsPerPod is {per_pod}, but must be a multiple of {UNIT}"
            ));
        }
        if !first.is_multiple_of(per_pod) || !length.is_multiple_of(per_pod) {
            return Err(format!(
                "the ID range of user kubelet ({length} IDs from {first}) must begin at a \
                 multiple of {per_pod}, and its length must be a multiple of {per_pod}; change \
                 it in /etc/subuid and /etc/subgid"
            ));
        }
        if first < per_pod {
            return Err(format!(
                "the ID range of user kubelet begins at {first}, but must begin at {per_pod} or above, \
                 because lower IDs belong to users of the host; change it in /etc/subuid and \
                 /etc/subgid"
            ));
        }
        let count = length / per_pod;
        if count < max_pods {
            return Err(format!(
                "the ID range of user kubelet ({length} IDs from {first}) is enough for {count} \
                 pods, but maxPods is {max_pods}; extend the range in /etc/subuid and \
                 /etc/subgid, or lower maxPods"
            ));
        }
        Ok(Self {
            first,
            count,
            per_pod,
            by_pod: BTreeMap::new(),
        })
    }

    /// Returns the number of ranges.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of ranges in use.
    pub fn used(&self) -> usize {
        self.by_pod.len()
    }

    /// Allocates a free range to a pod, the first one from index `from` on. A varying `from` avoids
    /// the immediate reuse of another pod's range.
    pub fn give(&mut self, uid: &str, from: u32) -> Option<IdRange> {
        let from = from.checked_rem(self.count)?;
        let index = (from..self.count)
            .chain(0..from)
            .find(|index| !self.is_taken(*index))?;
        self.by_pod.insert(uid.to_owned(), index);
        Some(self.range(index))
    }

    /// Records that a pod has a range.
    pub fn take(&mut self, uid: &str, range: IdRange) -> Result<(), String> {
        if range.length != self.per_pod {
            return Err(format!(
                "has a range of length {}, but each pod has {} IDs",
                range.length, self.per_pod
            ));
        }
        let index = range
            .first
            .checked_sub(self.first)
            .filter(|offset| offset.is_multiple_of(self.per_pod))
            .map(|offset| offset / self.per_pod)
            .filter(|index| *index < self.count)
            .ok_or_else(|| {
                format!(
                    "has a range that begins at {}, which is outside the ID range of the node",
                    range.first
                )
            })?;
        match self.by_pod.get(uid) {
            Some(own) if *own == index => Ok(()),
            Some(_) => Err("has a range that differs from the range of the pod".to_owned()),
            None if self.is_taken(index) => Err(format!(
                "has the range that begins at {}, which another pod uses",
                range.first
            )),
            None => {
                self.by_pod.insert(uid.to_owned(), index);
                Ok(())
            }
        }
    }

    /// Releases the range of a pod.
    pub fn release(&mut self, uid: &str) {
        self.by_pod.remove(uid);
    }

    fn is_taken(&self, index: u32) -> bool {
        self.by_pod.values().any(|taken| *taken == index)
    }

    fn range(&self, index: u32) -> IdRange {
        IdRange {
            first: self.first + index * self.per_pod,
            length: self.per_pod,
        }
    }
}

/// Returns the user namespace options for the runtime; `None` means the node's user namespace.
pub fn options(range: Option<IdRange>) -> v1::UserNamespace {
    let Some(range) = range else {
        return v1::UserNamespace {
            mode: v1::NamespaceMode::Node.into(),
            ..v1::UserNamespace::default()
        };
    };
    let mapping = v1::IdMapping {
        host_id: range.first,
        container_id: 0,
        length: range.length,
    };
    v1::UserNamespace {
        mode: v1::NamespaceMode::Pod.into(),
        uids: vec![mapping],
        gids: vec![mapping],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, length: u32) -> IdRange {
        IdRange { first, length }
    }

    #[test]
    fn ids_that_do_not_fit_are_refused() {
        for (ids, per_pod, pods, word) in [
            (range(65536, 65536 * 110), 65536, 110, ""),
            (range(65536, u32::MAX - 65535), 65536, 110, ""),
            (range(131_072, 131_072 * 5), 131_072, 5, ""),
            (range(65536, 65536 * 110), 65535, 110, "idsPerPod"),
            (range(65536, 65536 * 110), 65537, 110, "idsPerPod"),
            (range(65536, 65536 * 110), 0, 110, "idsPerPod"),
            (range(100_000, 65536 * 110), 65536, 110, "multiple"),
            (range(65536, 65536 * 110 + 1), 65536, 110, "multiple"),
            (range(0, 65536 * 110), 65536, 110, "users of the host"),
            (range(65536, 65536 * 109), 65536, 110, "109 pods"),
        ] {
            match Ranges::new(ids, per_pod, pods) {
                Ok(_) => assert_eq!(word, "", "{ids:?} {per_pod}"),
                Err(why) => assert!(!word.is_empty() && why.contains(word), "{why}"),
            }
        }
    }

    #[test]
    fn each_pod_has_its_own_until_there_are_none() {
        let mut ranges = Ranges::new(range(65536, 65536 * 3), 65536, 3).unwrap();
        let given: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|uid| ranges.give(uid, 7).unwrap().first / 65536)
            .collect();
        assert_eq!(given, [2, 3, 1], "from the seventh of three on");
        assert_eq!(ranges.give("d", 0), None);
        ranges.release("b");
        assert_eq!(ranges.give("d", 0), Some(range(65536 * 3, 65536)));
    }

    #[test]
    fn what_is_written_down_must_fit_what_is_given_out() {
        let mut ranges = Ranges::new(range(65536, 65536 * 3), 65536, 3).unwrap();
        for (uid, wanted, good) in [
            ("a", range(131_072, 65536), true),
            ("a", range(131_072, 65536), true),
            ("a", range(65536, 65536), false),
            ("b", range(131_072, 65536), false),
            ("b", range(131_073, 65536), false),
            ("b", range(0, 65536), false),
            ("b", range(65536 * 4, 65536), false),
            ("b", range(65536, 131_072), false),
            ("b", range(65536 * 3, 65536), true),
        ] {
            assert_eq!(ranges.take(uid, wanted).is_ok(), good, "{uid} {wanted:?}");
        }
    }
}
