//! Proofs that an entry is in a log's tree (RFC 9162, 2.1.3).

use crate::hash::sha256;

/// Maximum number of hashes, sufficient for a tree of any size.
pub(crate) const MAX_HASHES: usize = 64;

/// An inclusion proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The entry's index in the tree.
    pub(crate) index: u64,
    /// The number of entries in the tree.
    pub(crate) size: u64,
    /// The root hash of the tree.
    pub(crate) root: Vec<u8>,
    /// The sibling hashes on the path from the entry to the root.
    pub(crate) hashes: Vec<Vec<u8>>,
    /// The log's signed checkpoint of the tree.
    pub(crate) checkpoint: String,
}

impl Proof {
    /// Computes the root hash of the tree with this entry; `None` if the proof is inconsistent.
    pub(crate) fn root(&self, entry: &[u8]) -> Option<[u8; 32]> {
        if self.index >= self.size || self.hashes.len() > MAX_HASHES {
            return None;
        }
        let mut hash = leaf(entry);
        let mut place = self.index;
        let mut last = self.size - 1;
        for other in &self.hashes {
            if last == 0 || other.len() != 32 {
                return None;
            }
            if place & 1 == 1 || place == last {
                hash = node(other, &hash);
                while place & 1 == 0 && place != 0 {
                    place >>= 1;
                    last >>= 1;
                }
            } else {
                hash = node(&hash, other);
            }
            place >>= 1;
            last >>= 1;
        }
        (last == 0).then_some(hash)
    }
}

fn leaf(entry: &[u8]) -> [u8; 32] {
    sha256(&[&[0], entry])
}

fn node(left: &[u8], right: &[u8]) -> [u8; 32] {
    sha256(&[&[1], left, right])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the hash of a tree by its definition (RFC 9162, 2.1.1).
    fn tree(entries: &[Vec<u8>]) -> [u8; 32] {
        if let [one] = entries {
            return leaf(one);
        }
        let (left, right) = entries.split_at(half(entries.len()));
        node(&tree(left), &tree(right))
    }

    /// Computes a proof by its definition (RFC 9162, 2.1.3.1).
    fn path(index: usize, entries: &[Vec<u8>]) -> Vec<Vec<u8>> {
        if entries.len() <= 1 {
            return Vec::new();
        }
        let (left, right) = entries.split_at(half(entries.len()));
        let (mut path, other) = if index < left.len() {
            (path(index, left), tree(right))
        } else {
            (path(index - left.len(), right), tree(left))
        };
        path.push(other.to_vec());
        path
    }

    fn half(count: usize) -> usize {
        count.next_power_of_two() / 2
    }

    proptest! {
        #[test]
        fn an_entry_is_in_its_tree_and_at_its_place_only(size in 1_usize..70, index in 0_usize..70, odd in 0_usize..70) {
            let index = index % size;
            let entries: Vec<Vec<u8>> = (0..size).map(|number| vec![number as u8]).collect();
            let root = tree(&entries);
            let mut proof = Proof {
                index: index as u64,
                size: size as u64,
                root: root.to_vec(),
                hashes: path(index, &entries),
                checkpoint: String::new(),
            };
            prop_assert_eq!(proof.root(&entries[index]), Some(root));
            prop_assert_ne!(proof.root(b"other"), Some(root));
            if odd % size != index {
                proof.index = (odd % size) as u64;
                prop_assert_ne!(proof.root(&entries[index]), Some(root));
                proof.index = index as u64;
            }
            proof.hashes.push(vec![0; 32]);
            prop_assert_ne!(proof.root(&entries[index]), Some(root));
            proof.hashes.truncate(proof.hashes.len() - 2.min(proof.hashes.len()));
            if size > 1 {
                prop_assert_ne!(proof.root(&entries[index]), Some(root));
            }
        }
    }

    #[test]
    fn absurd_proofs_are_none() {
        let mut proof = Proof {
            index: u64::MAX,
            size: u64::MAX,
            root: Vec::new(),
            hashes: vec![vec![0; 32]; MAX_HASHES + 1],
            checkpoint: String::new(),
        };
        assert_eq!(proof.root(b""), None);
        proof.index = 0;
        assert_eq!(proof.root(b""), None);
        proof.hashes.pop();
        assert!(proof.root(b"").is_some());
        proof.hashes[3].pop();
        assert_eq!(proof.root(b""), None);
        proof.size = 0;
        assert_eq!(proof.root(b""), None);
    }
}
