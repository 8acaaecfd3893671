//! What exists, by identifier; identifiers may be shortened as long as they are unique.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{Error, Result};

/// A table of pods or containers. Held only for look-ups, never across IO.
#[derive(Debug)]
pub struct Store<T> {
    what: &'static str,
    items: RwLock<BTreeMap<String, Arc<T>>>,
}

impl<T> Store<T> {
    /// An empty table of `what`s, which is how messages name an entry.
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            items: RwLock::new(BTreeMap::new()),
        }
    }

    /// Adds an entry.
    pub fn insert(&self, id: &str, item: Arc<T>) {
        self.items
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.to_owned(), item);
    }

    /// Forgets an entry.
    pub fn remove(&self, id: &str) {
        self.items
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
    }

    /// The entry with this identifier or, if that is unique, this beginning of one.
    pub fn find(&self, id: &str) -> Result<Arc<T>> {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(item) = items.get(id) {
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
            .range::<str, _>((std::ops::Bound::Included(id), std::ops::Bound::Unbounded))
            .take_while(|(full, _)| full.starts_with(id));
        match (hits.next(), hits.next()) {
            (Some((_, item)), None) => Ok(Arc::clone(item)),
            (Some(_), Some(_)) => Err(Error::Invalid {
                field: format!("{} id", self.what),
                problem: format!("{id:?} is the beginning of more than one id; give more digits"),
            }
            .into()),
            _ => Err(not_found().into()),
        }
    }

    /// The entry, or `None` where there is none: for calls that must not mind.
    pub fn find_if_any(&self, id: &str) -> Result<Option<Arc<T>>> {
        match self.find(id) {
            Ok(item) => Ok(Some(item)),
            Err(error) if matches!(*error, Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All entries, as they are now.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.items
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_beginning_is_enough() {
        let store = Store::new("container");
        store.insert("aabb", Arc::new(1));
        store.insert("aacc", Arc::new(2));
        assert_eq!(*store.find("aab").unwrap(), 1);
        assert_eq!(*store.find("aacc").unwrap(), 2);
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
    }
}
