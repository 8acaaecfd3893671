//! What an unclean stop can leave on disk, made by hand, and what the next start makes of it.

use std::path::PathBuf;

use orlop_image_store::{Digest, Error, Image, Images};
use orlop_testkit::{BuiltImage, FaultProxy, ImageBuilder, Layer, Registry, assert_contains};

use crate::support::{Place, content};

/// A store with two images that share a layer, closed in the way of the test's choice.
struct Scene {
    place: Place,
    _registry: Registry,
    proxy: FaultProxy,
    one: Image,
    two: Image,
}

fn image(mark: &str) -> BuiltImage {
    ImageBuilder::new()
        .layer(Layer::new().file("shared", "s", 0o644))
        .layer(Layer::new().file("f", mark, 0o644).noise("n", 200_000))
        .marked(mark)
        .build()
}

impl Scene {
    async fn new() -> Self {
        let registry = Registry::start();
        let proxy = FaultProxy::before(registry.address());
        let place = Place::open().await;
        let mut images = Vec::new();
        for mark in ["one", "two"] {
            registry.push(&image(mark), &format!("{mark}:1")).await;
            let name = proxy.reference(&format!("{mark}:1"));
            images.push(place.pull(&name).await.unwrap());
        }
        let two = images.pop().unwrap();
        Self {
            place,
            _registry: registry,
            proxy,
            one: images.pop().unwrap(),
            two,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.config.root.join(name)
    }

    /// Lets `damage` loose on a store that seems to have been killed, and opens it again.
    async fn after(&mut self, damage: impl FnOnce(&Self)) {
        self.place.images.close().await;
        let idle = orlop_image_store::Config::new(self.place.scratch.path("idle"));
        self.place.images = Images::open(idle).await.unwrap();
        std::fs::write(self.path("running"), "").unwrap();
        damage(self);
        self.place.images = Images::open(self.place.config.clone()).await.unwrap();
    }

    fn layer(&self, image: &Image) -> PathBuf {
        let dirs = self.place.images.layer_dirs(&image.id).unwrap();
        let key = dirs[0].ancestors().find_map(|dir| {
            let hex = dir.file_name()?.to_str()?;
            (hex.len() == 64).then(|| hex.to_owned())
        });
        self.path("layers").join(key.unwrap())
    }

    fn ids(&self) -> Vec<Digest> {
        self.place
            .images
            .list()
            .iter()
            .map(|image| image.id)
            .collect()
    }

    /// Pulls the image again and says how many layers that took.
    async fn layers_fetched(&self, mark: &str) -> usize {
        let built = image(mark);
        let count = |layer: &str| self.proxy.count(http::Method::GET, layer);
        let all = || -> usize { built.layers.iter().map(|l| count(&l.digest)).sum() };
        let before = all();
        let name = self.proxy.reference(&format!("{mark}:1"));
        let image = self.place.pull(&name).await.unwrap();
        let mount = self.place.images.mount_read_only(&image.id).await.unwrap();
        assert_eq!(
            (content(&mount, "shared"), content(&mount, "f")),
            ("s".into(), mark.into())
        );
        all() - before
    }
}

#[tokio::test]
async fn what_was_under_way_is_gone_and_what_was_done_is_whole() {
    let mut scene = Scene::new().await;
    let (strange, torn) = ("1".repeat(64), "2".repeat(64));
    scene
        .after(|scene| {
            let make = |path: &str| std::fs::create_dir_all(scene.path(path)).unwrap();
            let write = |path: &str, text: &str| std::fs::write(scene.path(path), text).unwrap();
            make("tmp/layer-0/fs/d");
            write("tmp/layer-0/fs/d/f", "half");
            make(&format!("layers/{strange}/fs"));
            make(&format!("layers/{torn}/fs"));
            write(&format!("layers/{torn}/layer.json"), "{\"key\":");
            make("layers/what is this");
            write(&format!("blobs/{strange}"), "x");
        })
        .await;
    assert_eq!(scene.place.entries("tmp").len(), 0);
    assert_eq!(scene.place.entries("blobs").len(), 0);
    assert_eq!(scene.place.layer_dirs(), 3);
    let verified = scene.place.images.verify(false).await.unwrap();
    assert_eq!((verified.sound, verified.broken.len()), (3, 0));
    assert_eq!(scene.ids().len(), 2);
    assert_eq!(scene.layers_fetched("one").await, 0);
}

#[tokio::test]
async fn an_image_that_lost_a_layer_is_forgotten_and_the_others_stay() {
    let mut scene = Scene::new().await;
    let lost = scene.layer(&scene.one);
    scene.after(|_| orlop_fs::remove_tree(&lost).unwrap()).await;
    assert_eq!(scene.ids(), [scene.two.id]);
    assert_eq!(scene.layers_fetched("one").await, 1, "just what was lost");
}

#[tokio::test]
async fn a_new_layer_whose_files_a_disk_has_lost_is_noticed_at_the_start() {
    let mut scene = Scene::new().await;
    let torn = scene.layer(&scene.one);
    let cut = |torn: PathBuf| {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(torn.join("fs/n"))
            .unwrap();
        file.set_len(4096).unwrap();
    };
    scene.after(|_| cut(torn.clone())).await;
    assert_eq!(scene.ids(), [scene.two.id]);
    assert!(!torn.exists());
    assert_eq!(scene.layers_fetched("one").await, 1);
    // A container's layer is not taken away from under it.
    let leased = scene.layer(&scene.two);
    let images = &scene.place.images;
    images.lease("container", &scene.two).await.unwrap();
    scene.after(|_| cut(leased.clone())).await;
    assert!(leased.exists());
    assert!(scene.ids().contains(&scene.two.id));
    let verified = scene.place.images.verify(true).await.unwrap();
    assert!(verified.broken[0].repaired);
    assert_eq!(scene.place.images.verify(false).await.unwrap().sound, 3);
}

#[tokio::test]
async fn layers_outlive_the_index() {
    let mut scene = Scene::new().await;
    scene
        .after(|scene| std::fs::remove_file(scene.path("index.redb")).unwrap())
        .await;
    assert!(scene.ids().is_empty());
    assert_eq!(scene.layers_fetched("one").await, 0);
    assert_eq!(scene.layers_fetched("two").await, 0);
}

#[tokio::test]
async fn a_damaged_index_is_named_with_the_way_out() {
    let mut scene = Scene::new().await;
    scene.place.images.close().await;
    let idle = orlop_image_store::Config::new(scene.place.scratch.path("idle"));
    scene.place.images = Images::open(idle).await.unwrap();
    std::fs::write(scene.path("index.redb"), [7; 8192]).unwrap();
    let error = Images::open(scene.place.config.clone())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, Error::Store { .. }), "{error:?}");
    let text = error.to_string();
    assert_contains!(text, "index.redb", "move it to another directory");
    assert_eq!(scene.place.layer_dirs(), 3);
}
