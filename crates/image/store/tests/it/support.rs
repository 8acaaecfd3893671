//! A store of its own for each test.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_image_store::{
    Config, Error, ExportFormat, Image, Images, ImportSource, PullRequest, Result, StoreForm,
};
use orlop_testkit::Scratch;

/// An image store in a directory that ends with the test.
pub(crate) struct Place {
    pub(crate) images: Images,
    pub(crate) config: Config,
    pub(crate) scratch: Scratch,
}

impl Place {
    /// An empty store that doesn't wait long before it tries again.
    pub(crate) async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// An empty store with settings of the test's.
    pub(crate) async fn with(set: impl FnOnce(&mut Config)) -> Self {
        let scratch = Scratch::new();
        let mut config = Config::new(scratch.path("images"));
        config.retry_pause = Duration::from_millis(10);
        config.progress_timeout = Duration::from_secs(10);
        config.store = form();
        set(&mut config);
        let images = Images::open(config.clone()).await.expect("open the store");
        Self {
            images,
            config,
            scratch,
        }
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.images.close().await;
        // The last handle goes before the new one comes.
        let idle = Config::new(self.scratch.path("idle"));
        drop(std::mem::replace(
            &mut self.images,
            Images::open(idle).await.expect("open a store"),
        ));
        self.images = Images::open(self.config.clone())
            .await
            .expect("open the store again");
    }

    /// Pulls without credentials.
    pub(crate) async fn pull(&self, reference: &str) -> Result<Image> {
        pull(&self.images, reference).await
    }

    /// Imports the images of a layout.
    pub(crate) async fn import_layout(&self, dir: &Path) -> Result<Vec<Image>> {
        let source = ImportSource::Directory(dir.to_owned());
        self.images.import(source, None).await
    }

    /// Imports the images of an archive.
    pub(crate) async fn import_archive(&self, path: &Path) -> Result<Vec<Image>> {
        let file = std::fs::File::open(path).expect("open an archive");
        let source = ImportSource::Stream(Box::new(file));
        self.images.import(source, None).await
    }

    /// Asserts that an image is not exported.
    pub(crate) async fn assert_not_exported(&self, name: &str) {
        let names = [name];
        let exported = self
            .images
            .export(&names, ExportFormat::OciLayout, Vec::new());
        let error = exported.await.unwrap_err().to_string();
        assert!(error.contains("cannot be exported"), "{error}");
    }

    /// Removes images, and what they leave.
    pub(crate) async fn remove_all(&self, images: &[Image]) {
        for image in images {
            let done = self.images.remove(&image.id.to_string()).await;
            done.expect("remove");
        }
        self.sweep().await;
        assert_eq!(self.layer_dirs(), 0);
    }

    /// Removes what failed pulls left, when their last threads are done.
    pub(crate) async fn sweep(&self) {
        until("scratch is empty", || self.entries("tmp").is_empty()).await;
        let done = self.images.gc(Duration::ZERO).await;
        done.expect("collect garbage");
    }

    /// How many layers are on disk.
    pub(crate) fn layer_dirs(&self) -> usize {
        self.entries("layers").len()
    }

    /// What is in a directory of the store.
    pub(crate) fn entries(&self, dir: &str) -> Vec<PathBuf> {
        let listing = std::fs::read_dir(self.config.root.join(dir)).expect("list a directory");
        listing
            .map(|entry| entry.expect("read an entry").path())
            .collect()
    }
}

/// What layers become where a test does not say it: `$ORLOP_TEST_IMAGE_STORE`.
pub(crate) fn form() -> StoreForm {
    match std::env::var("ORLOP_TEST_IMAGE_STORE").as_deref() {
        Ok("erofs") => StoreForm::Erofs,
        _ => StoreForm::Files,
    }
}

/// Pulls without credentials.
pub(crate) async fn pull(images: &Images, reference: &str) -> Result<Image> {
    images
        .pull(PullRequest {
            reference: reference.to_owned(),
            ..PullRequest::default()
        })
        .await
}

/// Asserts that a policy does not allow something, and why.
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(outcome: Result<T>, because: &str) {
    let error = outcome.expect_err("it must not be allowed");
    assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
    assert!(error.to_string().contains(because), "{error}");
}

/// Asserts that a registry could not be reached, or did not do as it should.
#[track_caller]
pub(crate) fn assert_unavailable(error: &Error) {
    let is_unavailable = matches!(error, Error::RegistryUnavailable { .. });
    assert!(is_unavailable, "{error}");
}

/// A path in a detached mount.
pub(crate) fn inside(mount: &OwnedFd, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{path}", mount.as_raw_fd()))
}

/// The text of a file in a detached mount.
pub(crate) fn content(mount: &OwnedFd, path: &str) -> String {
    std::fs::read_to_string(inside(mount, path)).expect("read a file of the image")
}

/// The mode and the bytes of a file of an image.
pub(crate) async fn file(place: &Place, image: &Image, path: &str) -> (u32, Vec<u8>) {
    let mount = place.images.mount_read_only(&image.id).await;
    let mount = mount.expect("mount");
    let path = inside(&mount, path);
    let mode = std::fs::metadata(&path).expect("look at it").mode();
    (mode & 0o7777, std::fs::read(&path).expect("read it"))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    orlop_testkit::wait_until!(Duration::from_secs(20), so(), "waited in vain until {what}");
}
