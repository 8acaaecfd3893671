//! A store of its own for each test.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use orlop_image::{Config, Image, Images, PullRequest, Result, StoreForm};
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
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited in vain until {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
