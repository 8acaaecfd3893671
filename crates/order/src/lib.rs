//! Slices put in order by one piece of code for all types.
//!
//! The compiler makes the standard library's sort anew for each type and each way to compare, 4 kB at a
//! time. Here it sorts places in the slice, once for all, and each type has only its comparison and its swap.
//! That costs a call for each comparison: it is for lists that people or a kubelet read.

use std::cmp::Ordering;

/// What the standard library's `sort`, `sort_by` and `sort_by_key` do; equal ones stay as they stand, too.
pub trait Order<T> {
    /// Puts the least first.
    fn order(&mut self)
    where
        T: Ord;

    /// Puts first what `compare` has as the least.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Puts first what has the least key.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> Order<T> for [T] {
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering) {
        arrange(
            self.len(),
            &mut Compared {
                items: self,
                compare,
            },
        );
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }
}

/// Items known by their places.
trait Items {
    fn compare(&mut self, one: usize, other: usize) -> Ordering;
    fn swap(&mut self, one: usize, other: usize);
}

struct Compared<'a, T, F> {
    items: &'a mut [T],
    compare: F,
}

impl<T, F: FnMut(&T, &T) -> Ordering> Items for Compared<'_, T, F> {
    fn compare(&mut self, one: usize, other: usize) -> Ordering {
        (self.compare)(&self.items[one], &self.items[other])
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.items.swap(one, other);
    }
}

fn arrange(count: usize, items: &mut dyn Items) {
    // For each place, where what belongs there stands.
    let mut belongs: Vec<usize> = (0..count).collect();
    belongs.sort_by(|one, other| items.compare(*one, *other));
    for begin in 0..count {
        // Along a circle of places: each gets what belongs there, and what stood there goes on to the next.
        let mut place = begin;
        loop {
            let from = std::mem::replace(&mut belongs[place], place);
            if from == begin {
                break;
            }
            items.swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_ordered_as_the_standard_library_would(list: Vec<(u8, u16)>) {
            let mut expected = list.clone();
            expected.sort_unstable();
            let mut found = list.clone();
            found.order();
            prop_assert_eq!(&found, &expected);

            // Few keys, so that many are equal.
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| key % 4);
            let mut found = list.clone();
            found.order_by_key(|(key, _)| key % 4);
            prop_assert_eq!(&found, &expected);

            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            let mut found = list;
            found.order_by(|one, other| other.0.cmp(&one.0));
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn what_can_not_be_copied_is_ordered() {
        let mut names = ["c", "a", "b"].map(|name| Box::new(name.to_owned()));
        names.order();
        assert_eq!(names.map(|name| *name), ["a", "b", "c"]);
    }
}
