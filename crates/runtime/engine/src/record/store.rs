//! A table of pods or containers by identifier; identifiers may be shortened while they are unique.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::error::{Error, Result};

/// An item of a [`Store`].
pub trait Item: Debug {
    /// The identity: requests with the same name mean the same item.
    type Name: Hash + Eq + Debug;

    /// Returns its identifier.
    fn id(&self) -> &str;

    /// Returns its name.
    fn name(&self) -> Option<Self::Name>;

    /// Returns the identifier of its owner, if it has one.
    fn owner(&self) -> Option<&str>;
}

/// A table of pods or containers. Locked only for look-ups, never across IO.
#[derive(Debug)]
pub struct Store<T: Item> {
    what: &'static str,
    items: RwLock<Items<T>>,
}

#[derive(Debug)]
struct Items<T: Item> {
    by_id: BTreeMap<String, Arc<T>>,
    by_name: HashMap<T::Name, Arc<T>>,
    by_owner: HashMap<String, Vec<Arc<T>>>,
}

impl<T: Item> Store<T> {
    /// Creates an empty table; messages call an entry `what`.
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            items: RwLock::new(Items {
                by_id: BTreeMap::new(),
                by_name: HashMap::new(),
                by_owner: HashMap::new(),
            }),
        }
    }

    /// Adds an entry.
    pub fn insert(&self, item: Arc<T>) {
        let mut items = self.items.write();
        items.insert(item);
    }

    /// Removes an entry.
    pub fn remove(&self, id: &str) {
        let mut items = self.items.write();
        items.remove(id);
    }

    /// Finds the entry with this identifier or, if unique, this prefix of one.
    pub fn find(&self, id: &str) -> Result<Arc<T>> {
        let items = self.read();
        if let Some(item) = items.by_id.get(id) {
            return Ok(Arc::clone(item));
        }
        let not_found = || Error::NotFound {
            what: self.what,
            id: id.to_owned(),
        };
        if id.is_empty() {
            return Err(not_found().into());
        }
        let mut hits = items
            .by_id
            .range::<str, _>((std::ops::Bound::Included(id), std::ops::Bound::Unbounded))
            .take_while(|(full, _)| full.starts_with(id));
        match (hits.next(), hits.next()) {
            (Some((_, item)), None) => Ok(Arc::clone(item)),
            (Some(_), Some(_)) => Err(Error::Invalid {
                field: format!("{} id", self.what),
                problem: format!("{id:?} is the start of more than one ID; use more digits"),
            }
            .into()),
            _ => Err(not_found().into()),
        }
    }

    /// Returns the entry with exactly this identifier.
    pub fn exactly(&self, id: &str) -> Option<Arc<T>> {
        self.read().by_id.get(id).cloned()
    }

    /// Finds the entry; a missing one is `None` instead of an error.
    pub fn find_if_any(&self, id: &str) -> Result<Option<Arc<T>>> {
        match self.find(id) {
            Ok(item) => Ok(Some(item)),
            Err(error) if matches!(*error, Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is an entry with exactly this identifier.
    pub fn contains(&self, id: &str) -> bool {
        self.read().by_id.contains_key(id)
    }

    /// Returns the entry of this name.
    pub fn named(&self, name: &T::Name) -> Option<Arc<T>> {
        self.read().by_name.get(name).cloned()
    }

    /// Returns the entries of this owner, oldest first.
    pub fn owned_by(&self, owner: &str) -> Vec<Arc<T>> {
        self.read().by_owner.get(owner).cloned().unwrap_or_default()
    }

    /// Returns a snapshot of all entries.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().by_id.values().cloned().collect()
    }

    fn read(&self) -> parking_lot::RwLockReadGuard<'_, Items<T>> {
        self.items.read()
    }
}

impl<T: Item> Items<T> {
    fn insert(&mut self, item: Arc<T>) {
        if let Some(name) = item.name() {
            self.by_name.insert(name, Arc::clone(&item));
        }
        if let Some(owner) = item.owner() {
            let siblings = self.by_owner.entry(owner.to_owned()).or_default();
            siblings.push(Arc::clone(&item));
        }
        self.by_id.insert(item.id().to_owned(), item);
    }

    fn remove(&mut self, id: &str) {
        let Some(item) = self.by_id.remove(id) else {
            return;
        };
        if let Some(name) = item.name() {
            // A successor may have the name by now.
            let is_its = |holder: &Arc<T>| Arc::ptr_eq(holder, &item);
            if self.by_name.get(&name).is_some_and(is_its) {
                self.by_name.remove(&name);
            }
        }
        if let Some(owner) = item.owner()
            && let Some(siblings) = self.by_owner.get_mut(owner)
        {
            siblings.retain(|sibling| !Arc::ptr_eq(sibling, &item));
            if siblings.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Boat {
        id: &'static str,
        name: &'static str,
        harbour: &'static str,
    }

    impl Item for Boat {
        type Name = &'static str;

        fn id(&self) -> &str {
            self.id
        }

        fn name(&self) -> Option<&'static str> {
            Some(self.name)
        }

        fn owner(&self) -> Option<&str> {
            Some(self.harbour)
        }
    }

    fn store(boats: &[(&'static str, &'static str, &'static str)]) -> Store<Boat> {
        let store = Store::new("boat");
        for &(id, name, harbour) in boats {
            store.insert(Arc::new(Boat { id, name, harbour }));
        }
        store
    }

    #[test]
    fn a_unique_beginning_is_enough() {
        let store = store(&[("aabb", "one", "h"), ("aacc", "two", "h")]);
        assert_eq!(store.find("aab").unwrap().name, "one");
        assert_eq!(store.find("aacc").unwrap().name, "two");
        assert!(matches!(
            *store.find("aa").unwrap_err(),
            Error::Invalid { .. }
        ));
        assert!(matches!(
            *store.find("b").unwrap_err(),
            Error::NotFound { .. }
        ));
        assert!(matches!(
            *store.find("").unwrap_err(),
            Error::NotFound { .. }
        ));
        assert!(store.find_if_any("zz").unwrap().is_none());
        assert!(store.contains("aabb") && !store.contains("aab"));
    }

    #[test]
    fn names_and_owners_are_found_and_forgotten() {
        let store = store(&[
            ("1", "one", "north"),
            ("2", "two", "north"),
            ("3", "one", "south"),
        ]);
        assert_eq!(
            store.named(&"one").unwrap().id,
            "3",
            "the latest has the name"
        );
        store.remove("1");
        assert_eq!(
            store.named(&"one").unwrap().id,
            "3",
            "its successor keeps it"
        );
        let north: Vec<_> = store.owned_by("north").iter().map(|boat| boat.id).collect();
        assert_eq!(north, ["2"]);
        store.remove("3");
        assert!(store.named(&"one").is_none());
        assert!(store.owned_by("south").is_empty());
        store.remove("3");
        assert_eq!(store.all().len(), 1);
    }
}
