//! Images that are being pulled. Their records stay, although the engine does not have the images yet.
//!
//! A pull is registered for the duration of its call, so that failed pulls occupy no space. To remove the records of
//! deleted images, the caller starts a sweep and then asks the engine for its images. A sweep spares every image that
//! was being pulled at any time during the sweep, because the engine may have answered before the image arrived.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::records::Records;
use crate::blocking::blocking;
use crate::evidence::Findings;
use crate::{Digest, Reference, Result};

/// All images that are being pulled. Clones share the same state.
#[derive(Debug, Clone, Default)]
pub(super) struct Ways(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<Digest, Way>,
    /// Number of running sweeps.
    sweeps: usize,
}

#[derive(Debug, Default)]
struct Way {
    /// Number of pulls of the image. Zero if a pull ended during a running sweep.
    pulls: usize,
    /// Whether one of these pulls stored the record, and no pull has succeeded yet.
    is_new: bool,
}

/// A registered pull of an image. Dropping it keeps the image's record until space is needed.
#[derive(Debug)]
pub struct OnItsWay {
    records: Records,
    ways: Ways,
    image: Digest,
    found: Findings,
}

/// A sweep of records of deleted images.
#[derive(Debug)]
pub struct Sweep {
    records: Records,
    ways: Ways,
}

impl OnItsWay {
    pub(super) fn begin(
        records: Records,
        ways: &Ways,
        image: Digest,
        found: Findings,
    ) -> Result<Self> {
        let way = Self {
            records,
            ways: ways.enter(image),
            image,
            found,
        };
        if way.records.begin(&image, way.found.clone())? {
            way.ways.set_new(&image, true);
        }
        Ok(way)
    }

    /// Reports that the image arrived with these names, and adds the findings to its record.
    pub async fn arrived(self, names: Vec<String>) -> Result<()> {
        blocking(move || {
            let names = names.iter().filter_map(|name| name.parse().ok());
            let named = names.map(|name: Reference| name.repository().to_string());
            let own = self.found.repository.clone();
            let named: BTreeSet<String> = named.chain([own]).collect();
            self.records.add(&self.image, self.found.clone(), &named)?;
            self.ways.set_new(&self.image, false);
            Ok(())
        })
        .await
    }

    /// Reports that the image did not arrive and does not exist. Removes the record of this pull, unless another pull
    /// is running.
    pub async fn failed(self) -> Result<()> {
        blocking(move || {
            let is_nobodys = || self.ways.is_new_and_alone(&self.image);
            self.records.remove_if(&self.image, is_nobodys)
        })
        .await
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.ways.leave(self.image);
    }
}

impl Sweep {
    pub(super) fn begin(records: Records, ways: &Ways) -> Self {
        ways.0.lock().sweeps += 1;
        let ways = ways.clone();
        Self { records, ways }
    }

    /// Removes the records of all images except these, which existed after the sweep began.
    pub async fn retain(self, images: HashSet<Digest>) -> Result<()> {
        blocking(move || {
            for image in self.records.images()? {
                if !images.contains(&image) {
                    self.forget_now(&image)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Removes the record of an image that did not exist after the sweep began.
    pub async fn forget(self, image: Digest) -> Result<()> {
        blocking(move || self.forget_now(&image)).await
    }

    fn forget_now(&self, image: &Digest) -> Result<()> {
        let is_gone = || !self.ways.0.lock().of.contains_key(image);
        self.records.remove_if(image, is_gone)
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        let mut state = self.ways.0.lock();
        state.sweeps -= 1;
        if state.sweeps == 0 {
            state.of.retain(|_, way| way.pulls > 0);
        }
    }
}

impl Ways {
    fn enter(&self, image: Digest) -> Self {
        self.0.lock().of.entry(image).or_default().pulls += 1;
        self.clone()
    }

    fn leave(&self, image: Digest) {
        let mut state = self.0.lock();
        let is_swept = state.sweeps > 0;
        if let Entry::Occupied(mut way) = state.of.entry(image) {
            way.get_mut().pulls -= 1;
            if way.get().pulls == 0 {
                // The next pull finds the record in place.
                way.get_mut().is_new = false;
                if !is_swept {
                    way.remove();
                }
            }
        }
    }

    fn set_new(&self, image: &Digest, is_new: bool) {
        if let Some(way) = self.0.lock().of.get_mut(image) {
            way.is_new = is_new;
        }
    }

    fn is_new_and_alone(&self, image: &Digest) -> bool {
        let state = self.0.lock();
        let way = state.of.get(image);
        way.is_some_and(|way| way.is_new && way.pulls == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        records: Records,
        ways: Ways,
        _scratch: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            Self {
                records: Records::open(scratch.path()).unwrap(),
                ways: Ways::default(),
                _scratch: scratch,
            }
        }

        fn begin(&self, image: Digest) -> OnItsWay {
            let found = Findings {
                repository: "a.example/b".to_owned(),
                ..Findings::default()
            };
            OnItsWay::begin(self.records.clone(), &self.ways, image, found).unwrap()
        }

        fn sweep(&self) -> Sweep {
            Sweep::begin(self.records.clone(), &self.ways)
        }
    }

    #[tokio::test]
    async fn what_was_written_for_pulls_that_all_fail_goes_with_the_last() {
        let scene = Scene::new();
        let image = Digest::of(b"1");
        let (first, second) = (scene.begin(image), scene.begin(image));
        first.failed().await.unwrap();
        assert!(scene.records.has(&image), "another brings it");
        second.failed().await.unwrap();
        assert!(!scene.records.has(&image));
        let (first, second) = (scene.begin(image), scene.begin(image));
        first.arrived(Vec::new()).await.unwrap();
        second.failed().await.unwrap();
        assert!(scene.records.has(&image), "it has come");
        scene.begin(image).failed().await.unwrap();
        assert!(scene.records.has(&image), "it was known before");
        assert!(scene.ways.0.lock().of.is_empty());
    }

    #[tokio::test]
    async fn a_sweep_spares_what_was_on_its_way_meanwhile() {
        let scene = Scene::new();
        let images = [b"0", b"1", b"2", b"3", b"4"].map(|it| Digest::of(it));
        let [here, gone, before, within, after] = images;
        for image in [here, gone] {
            drop(scene.begin(image));
        }
        let on_its_way = scene.begin(before);
        let sweep = scene.sweep();
        on_its_way.arrived(Vec::new()).await.unwrap();
        scene.begin(within).arrived(Vec::new()).await.unwrap();
        let on_its_way = scene.begin(after);
        scene.sweep().forget(within).await.unwrap();
        sweep.retain(HashSet::from([here])).await.unwrap();
        let known = images.map(|image| scene.records.has(&image));
        assert_eq!(known, [true, false, true, true, true]);
        on_its_way.arrived(Vec::new()).await.unwrap();
        assert!(scene.ways.0.lock().of.is_empty(), "nothing is held on");
        scene.sweep().forget(within).await.unwrap();
        scene.sweep().retain(HashSet::new()).await.unwrap();
        assert_eq!(scene.records.images().unwrap(), []);
    }
}
