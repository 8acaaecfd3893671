//! The images, and what their containers read.

use orlop_testkit::{Chunked, Cut, ImageBuilder, LargeTree, Layer, Registry};

/// Of so many files a container reads one.
const READ: usize = 20;
/// Of so many files that it reads, one is read before it answers.
const FIRST: usize = 5;
/// The same of a small image, one of many.
const READ_OF_MANY: usize = 300;
/// Directories in which the files are, one for so many.
const FILES_OF_A_DIRECTORY: usize = 30;
/// Where what the container serves is.
const SERVED: &str = "www";

/// How large an image is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// In which order the files of an image stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// What the container reads comes first, as optimizers of images have it.
    Wanted,
    /// As in the archive: what it reads is all over the image.
    Any,
}

impl Order {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wanted => "in order",
            Self::Any => "in no order",
        }
    }

    /// The name of the image, without its registry.
    pub(crate) fn repository(self) -> String {
        format!("lazy-{self:?}:1").to_lowercase()
    }
}

impl Shape {
    fn tree(self) -> LargeTree {
        LargeTree::new(self.files, self.files / FILES_OF_A_DIRECTORY, self.bytes)
    }

    /// The files that the container reads, in the order in which it does.
    pub(crate) fn read(self) -> Vec<String> {
        let tree = self.tree();
        // In no order that an archive has.
        let count = self.files / READ;
        let numbers = (0..count).map(|n| n * 7919 % count);
        // Of two neighbours one is small.
        let files = numbers.map(|number| number * READ + number % 2);
        files.map(|file| tree.path(file)).collect()
    }

    /// How many of them it reads before it answers.
    pub(crate) fn first(self) -> usize {
        self.files / READ / FIRST
    }

    /// Pushes it, in a repository of its own. One layer is busybox and small, the other the tree.
    pub(crate) async fn push(self, registry: &Registry, order: Order) -> String {
        let read = self.read();
        let cut = match order {
            Order::Wanted => Cut::new().first(&read.iter().map(String::as_str).collect::<Vec<_>>()),
            Order::Any => Cut::new(),
        };
        let layer = self.tree().chunked(Chunked::EStargz, &cut);
        let (first, rest) = read.split_at(self.first());
        let base = Layer::busybox()
            .dir(SERVED, 0o755)
            .file("first", listed(first), 0o644)
            .file("rest", listed(rest), 0o644);
        let image = ImageBuilder::new().layer(base).cut(layer).build();
        let name = order.repository();
        registry.push(&image, &name).await;
        name
    }
}

/// The command of a container that reads its first files, then answers at a port, and reads the others
/// meanwhile. `/all` is there when it has read them.
pub(crate) fn command(port: u16) -> String {
    format!(
        "xargs cat </first >/dev/null && echo first >/{SERVED}/first && \
         {{ xargs cat </rest >/dev/null && echo all >/{SERVED}/all & }} ; \
         exec httpd -f -h /{SERVED} -p 127.0.0.1:{port}"
    )
}

/// Pushes a small image of many small files, one of many that differ.
pub(crate) async fn push_small(registry: &Registry, files: usize, number: usize) -> String {
    let tree = LargeTree::new(files, files / FILES_OF_A_DIRECTORY, files as u64 * 100);
    let tree = tree.seed(number as u64 + 2);
    let layer = tree.chunked(Chunked::EStargz, &Cut::new().member(64 << 10));
    let read: Vec<_> = (0..files)
        .step_by(READ_OF_MANY)
        .map(|file| tree.path(file))
        .collect();
    let base = Layer::busybox().file("first", listed(&read), 0o644);
    let image = ImageBuilder::new().layer(base).cut(layer).build();
    let name = format!("small-{number}:1");
    registry.push(&image, &name).await;
    name
}

/// Paths of an image, a line for each.
fn listed(paths: &[String]) -> String {
    let mut list = String::new();
    for path in paths {
        list.push('/');
        list.push_str(path);
        list.push('\n');
    }
    list
}
