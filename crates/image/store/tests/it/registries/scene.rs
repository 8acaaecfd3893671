//! A registry that is reached through several doors, and a node with a `registries.conf`.

use std::path::PathBuf;

use orlop_image_store::{Config, Image, PolicyFor, PullRequest, RegistriesFile, Result};
use orlop_testkit::{BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule, Scratch};

use crate::support::Place;

/// Where tests put the addresses of the doors: `@0`, `@1` …
pub(super) struct Scene {
    pub(super) place: Place,
    pub(super) registry: Registry,
    pub(super) built: BuiltImage,
    pub(super) doors: Vec<FaultProxy>,
    pub(super) conf: PathBuf,
    scratch: Scratch,
}

/// What the image is called in the registry.
pub(super) const NAMES: [&str; 4] = ["app:1", "team/app:1", "m/app:1", "m/team/app:1"];

impl Scene {
    /// With so many doors.
    pub(super) async fn new(doors: usize) -> Self {
        Self::with(doors, |_, _| {}).await
    }

    /// With settings of the test's, for which it has a directory.
    pub(super) async fn with(doors: usize, set: impl FnOnce(&mut Config, &Scratch)) -> Self {
        let scratch = Scratch::new();
        let conf = scratch.path("registries.conf");
        let registry = Registry::start();
        let built = ImageBuilder::new()
            .layer(Layer::new().file("f", "x", 0o644))
            .build();
        for name in NAMES {
            registry.push(&built, name).await;
        }
        let place = Place::with(|config| {
            config.registries = RegistriesFile::at(&conf);
            config.retries = 0;
            set(config, &scratch);
        });
        let doors = (0..doors).map(|_| FaultProxy::before(registry.address()));
        let scene = Self {
            place: place.await,
            doors: doors.collect(),
            registry,
            built,
            conf,
            scratch,
        };
        scene.write("");
        scene
    }

    /// Replaces the `registries.conf`.
    pub(super) fn write(&self, text: &str) {
        std::fs::write(&self.conf, self.with_addresses(text)).unwrap();
    }

    /// Puts a file beside it.
    pub(super) fn add(&self, name: &str, text: &str) {
        let mut dir = self.conf.clone().into_os_string();
        dir.push(".d");
        let dir = PathBuf::from(dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(name), self.with_addresses(text)).unwrap();
    }

    /// A file in a directory of the scene's.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.path(&self.with_addresses(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, self.with_addresses(text)).unwrap();
        path
    }

    pub(super) fn with_addresses(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (number, door) in self.doors.iter().enumerate() {
            text = text.replace(&format!("@{number}"), &door.host());
        }
        text
    }

    pub(super) async fn pull(&self, name: &str) -> Result<Image> {
        self.pull_for(name, "").await
    }

    pub(super) async fn pull_for(&self, name: &str, namespace: &str) -> Result<Image> {
        let request = PullRequest {
            reference: self.with_addresses(name),
            policy: PolicyFor::Namespace(namespace.to_owned()),
            ..PullRequest::default()
        };
        self.place.images.pull(request).await
    }

    /// Forgets the image, and what the doors have seen.
    pub(super) async fn forget(&self) {
        self.place.images.remove(self.built.id()).await.unwrap();
        for door in &self.doors {
            door.forget();
        }
    }

    /// The doors at which somebody asked for a manifest, and the paths without their end.
    pub(super) fn asked(&self) -> Vec<(usize, String)> {
        let mut asked = Vec::new();
        for (number, door) in self.doors.iter().enumerate() {
            for seen in door.seen() {
                let Some((path, _)) = seen.path.split_once("/manifests/") else {
                    continue;
                };
                let asked_for = (number, path.trim_start_matches("/v2/").to_owned());
                if !asked.contains(&asked_for) {
                    asked.push(asked_for);
                }
            }
        }
        asked
    }

    /// The doors in the order in which they are asked for manifests: whoever served one has none the
    /// next time, until nobody has.
    pub(super) async fn sequence(
        &self,
        mut pull: impl AsyncFnMut() -> bool,
    ) -> Vec<(usize, String)> {
        let mut sequence: Vec<(usize, String)> = Vec::new();
        loop {
            self.forget().await;
            let served = pull().await;
            let asked = self.asked();
            let mut new = asked.into_iter().filter(|one| !sequence.contains(one));
            match (served, new.next()) {
                (true, Some(last)) => {
                    assert_eq!(new.next(), None, "more were asked after one had served");
                    let path = format!("{}/manifests/", last.1);
                    self.doors[last.0].rule(Rule::on(&path, Fault::status(404)));
                    sequence.push(last);
                }
                (true, None) => panic!("nobody was asked, and something was served"),
                (false, one) => {
                    assert_eq!(one, None, "one was asked that had not failed before");
                    for door in &self.doors {
                        door.heal();
                    }
                    return sequence;
                }
            }
        }
    }
}
