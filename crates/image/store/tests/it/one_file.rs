//! Layers that are files of EROFS, mounted when they are used.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use orlop_image_store::{Image, Images, StoreForm};
use orlop_testkit::scratch::{mounts_below, unmount_below};
use orlop_testkit::{ImageBuilder, Layer, Registry, skip};

use crate::support::{Place, content};

/// A store of such layers with one image of two.
struct Scene {
    registry: Registry,
    place: Place,
    image: Image,
}

impl Scene {
    async fn new() -> Self {
        let registry = Registry::start();
        let place = Place::with(|config| config.store = StoreForm::Erofs).await;
        let below = Layer::new()
            .dir("d", 0o755)
            .file("d/noise", vec![7; 300_000], 0o644)
            .file("f", "low", 0o644);
        let above = Layer::new().file("g", "high", 0o644).whiteout("gone");
        let built = ImageBuilder::new().layer(below).layer(above).build();
        registry.push(&built, "app:1").await;
        let image = place.pull(&registry.reference("app:1")).await.unwrap();
        Self {
            registry,
            place,
            image,
        }
    }

    /// The layers' files, top first.
    async fn files(&self) -> Vec<PathBuf> {
        let dirs = self.place.images.layers(&self.image.id).await.unwrap();
        let layers = self.place.config.root.join("layers");
        dirs.iter()
            .map(|dir| layers.join(dir.file_name().unwrap()).join("fs.erofs"))
            .collect()
    }

    fn mounted(&self) -> usize {
        mounts_below(&self.place.config.root.join("mounts")).len()
    }

    /// As after a boot, or by an administrator.
    fn unmount(&self) {
        unmount_below(&self.place.config.root.join("mounts"));
    }

    async fn lease(&self) {
        let images = &self.place.images;
        images.lease("container", &self.image).await.unwrap();
    }

    async fn reads(&self) -> String {
        let mount = self.place.images.mount_read_only(&self.image.id).await;
        let mount = mount.unwrap();
        content(&mount, "f") + &content(&mount, "g")
    }
}

/// Puts another file in the place of one, which may be sealed.
fn spoil(file: &Path, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    harm(&mut bytes);
    let other = file.with_extension("other");
    std::fs::write(&other, bytes).unwrap();
    std::fs::rename(&other, file).unwrap();
}

fn change(file: &Path, at: usize) {
    spoil(file, |bytes| bytes[at..at + 64].fill(0x55));
}

fn cut(file: &Path) {
    spoil(file, |bytes| bytes.truncate(bytes.len() / 2));
}

#[tokio::test]
async fn layers_are_mounted_when_they_are_used_and_unmounted_when_they_go() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.mounted(), 0, "nobody has used one");
    assert_eq!(scene.reads().await, "lowhigh");
    assert_eq!(scene.mounted(), 2);
    // Another use mounts nothing anew.
    assert_eq!(scene.reads().await, "lowhigh");
    assert_eq!(scene.mounted(), 2);
    // No container has them: a store that is closed leaves none.
    scene.place.images.close().await;
    scene.place.reopen().await;
    assert_eq!(scene.mounted(), 0);
    assert_eq!(scene.reads().await, "lowhigh");
    let id = scene.image.id.to_string();
    scene.place.images.remove(&id).await.unwrap();
    assert_eq!(scene.mounted(), 0);
    assert_eq!(scene.place.layer_dirs(), 0);
    assert!(scene.place.entries("mounts").is_empty());
}

#[tokio::test]
async fn what_a_container_has_stays_mounted_over_a_restart() {
    let mut scene = Scene::new().await;
    scene.lease().await;
    let mount = scene.place.images.mount_read_only(&scene.image.id).await;
    let mount = mount.unwrap();
    scene.place.reopen().await;
    assert_eq!(scene.mounted(), 2);
    let id = scene.image.id.to_string();
    scene.place.images.remove(&id).await.unwrap();
    assert_eq!(scene.mounted(), 2, "they are leased");
    scene.place.images.release("container").await.unwrap();
    assert_eq!(scene.mounted(), 0);
    // Who has it mounted keeps it.
    assert_eq!(content(&mount, "f"), "low");
}

#[tokio::test]
async fn what_an_earlier_run_left_mounted_is_used_or_unmounted() {
    let mut scene = Scene::new().await;
    scene.lease().await;
    let files = scene.files().await;
    assert_eq!(scene.mounted(), 2);
    // As after a kill in the middle of a removal: the directory of a layer is gone, its mount is not.
    scene.place.images.close().await;
    let idle = orlop_image_store::Config::new(scene.place.scratch.path("idle"));
    scene.place.images = Images::open(idle).await.unwrap();
    orlop_fs::remove_tree(files[0].parent().unwrap()).unwrap();
    scene.place.images = Images::open(scene.place.config.clone()).await.unwrap();
    assert_eq!(scene.mounted(), 1);
    assert_eq!(scene.place.layer_dirs(), 1);
}

#[tokio::test]
async fn a_damaged_file_is_found_and_pulled_again() {
    let scene = Scene::new().await;
    let verified = scene.place.images.verify(true).await.unwrap();
    assert_eq!((verified.sound, verified.broken.len()), (2, 0));
    let low = scene.files().await[1].clone();
    for damage in ["content", "cut", "superblock", "gone"] {
        match damage {
            "content" => change(&low, 8192),
            "cut" => cut(&low),
            "superblock" => change(&low, 1024),
            _ => std::fs::remove_file(&low).unwrap(),
        }
        // What the kernel has read is not read again while it is mounted.
        scene.unmount();
        let verified = scene.place.images.verify(false).await.unwrap();
        assert_eq!((verified.sound, verified.broken.len()), (1, 1), "{damage}");
        assert_eq!(verified.broken[0].images, [scene.image.id]);
        let verified = scene.place.images.verify(true).await.unwrap();
        assert!(verified.broken[0].repaired, "{damage}");
        assert_eq!(scene.reads().await, "lowhigh", "{damage}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_it_was_is_repaired_before_it_is_used() {
    let scene = Scene::new().await;
    let layers = || scene.place.images.layers(&scene.image.id);
    for damage in ["cut", "superblock", "gone"] {
        let low = scene.files().await[1].clone();
        scene.unmount();
        match damage {
            "cut" => cut(&low),
            "superblock" => change(&low, 1024),
            _ => std::fs::remove_file(&low).unwrap(),
        }
        layers().await.unwrap();
        assert_eq!(scene.reads().await, "lowhigh", "{damage}");
    }
    // Without its registry it is refused by name, and nothing half is handed out.
    let low = scene.files().await[1].clone();
    scene.unmount();
    let Scene {
        registry,
        place,
        image,
    } = scene;
    drop(registry);
    change(&low, 1024);
    let refused = place.images.layers(&image.id).await.unwrap_err();
    assert!(refused.to_string().contains("is damaged"), "{refused}");
}

#[tokio::test]
async fn both_forms_of_layers_make_one_image() {
    let mut scene = Scene::new().await;
    scene.place.images.close().await;
    scene.place.config.store = StoreForm::Files;
    scene.place.reopen().await;
    // The layer below is there as a file, and the one above comes as a directory.
    let below = Layer::new()
        .dir("d", 0o755)
        .file("d/noise", vec![7; 300_000], 0o644)
        .file("f", "low", 0o644);
    let above = Layer::new().file("g", "other", 0o644).opaque("d");
    let built = ImageBuilder::new().layer(below).layer(above).build();
    scene.registry.push(&built, "app:2").await;
    let image = scene
        .place
        .pull(&scene.registry.reference("app:2"))
        .await
        .unwrap();
    let dirs = scene.place.images.layers(&image.id).await.unwrap();
    assert!(dirs[0].ends_with("fs"), "{dirs:?}");
    assert!(dirs[1].starts_with(scene.place.config.root.join("mounts")));
    let mount = scene.place.images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "f") + &content(&mount, "g"), "lowother");
    assert!(!crate::support::inside(&mount, "d/noise").exists());
    assert_eq!(scene.reads().await, "lowhigh");
}

#[tokio::test]
async fn a_sealed_file_cannot_be_changed_and_another_in_its_place_is_found() {
    let scene = Scene::new().await;
    let low = scene.files().await[1].clone();
    let record = std::fs::read_to_string(low.with_file_name("layer.json")).unwrap();
    if record.contains(r#""verity":null"#) {
        skip!("the disk of the tests' directories seals no files (fs-verity)");
    }
    let refused = OpenOptions::new().write(true).open(&low).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    for change_it in [true, false] {
        scene.unmount();
        // As long as it was, and but for a byte what it was; or all that it was, without its seal.
        spoil(&low, |bytes| bytes[8192] ^= u8::from(change_it));
        assert_eq!(scene.reads().await, "lowhigh");
        let again = OpenOptions::new().write(true).open(&low).unwrap_err();
        assert_eq!(again.kind(), std::io::ErrorKind::PermissionDenied);
    }
}
