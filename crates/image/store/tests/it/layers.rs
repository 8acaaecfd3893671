//! What layers become on disk, and that hostile ones become nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use orlop_image_store::{Image, StoreForm};
use orlop_testkit::{Compression, ImageBuilder, Layer, Registry};

use crate::support::{Place, content, form, inside, until};

async fn pulled(registry: &Registry, place: &Place, builder: ImageBuilder) -> Image {
    let name = format!("app:{}", place.images.list().len());
    registry.push(&builder.build(), &name).await;
    place.pull(&registry.reference(&name)).await.unwrap()
}

#[tokio::test]
async fn whiteouts_and_opaque_directories_hide_what_is_below() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let below = Layer::new()
        .dir("d", 0o755)
        .file("d/old", "old", 0o644)
        .dir("gone", 0o755)
        .file("gone/f", "", 0o644)
        .dir("swapped", 0o755)
        .file("swapped/old", "", 0o644)
        .file("kept", "kept", 0o644);
    let above = Layer::new()
        .dir("d", 0o755)
        .file("d/new", "new", 0o644)
        .opaque("d")
        .whiteout("gone")
        .whiteout("swapped")
        .dir("swapped", 0o755)
        .file("swapped/new", "new", 0o644)
        .file(".wh..wh.plnk", "", 0o644);
    let image = pulled(
        &registry,
        &place,
        ImageBuilder::new().layer(below).layer(above),
    )
    .await;
    let mount = place.images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "d/new"), "new");
    assert_eq!(content(&mount, "kept"), "kept");
    for hidden in ["d/old", "gone", "swapped/old", ".wh..wh.plnk", ".wh.gone"] {
        assert!(!inside(&mount, hidden).exists(), "{hidden}");
    }
    assert!(inside(&mount, "swapped/new").exists());
}

#[tokio::test]
async fn owners_modes_times_links_devices_and_attributes_are_kept() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let layer = Layer::new()
        .owner(1000, 2000)
        .dir("shared", 0o2775)
        .file("shared/setuid", "x", 0o4755)
        .hardlink("shared/again", "shared/setuid", 0o4755)
        .symlink("link", "../../etc/shadow")
        .fifo("pipe", 0o600)
        .device("null", 1, 3, 0o666)
        .xattr("security.capability", &capability)
        .file("capable", "x", 0o755)
        .xattr("trusted.overlay.redirect", b"/etc")
        .dir("marked", 0o700)
        .owner(0, 0)
        .file("shared/root", "x", 0o644);
    let image = pulled(&registry, &place, ImageBuilder::new().layer(layer)).await;
    let root = &place.images.layers(&image.id).await.unwrap()[0];
    let look = |path: &str| std::fs::symlink_metadata(root.join(path)).unwrap();
    let setuid = look("shared/setuid");
    assert_eq!(
        (setuid.uid(), setuid.gid(), setuid.mode() & 0o7777),
        (1000, 2000, 0o4755)
    );
    assert_eq!(setuid.mtime(), 1_700_000_000);
    assert_eq!(setuid.ino(), look("shared/again").ino());
    assert_eq!(
        (look("shared").mode() & 0o7777, look("shared").mtime()),
        (0o2775, 1_700_000_000)
    );
    assert_eq!(
        (look("shared/root").uid(), look("shared/root").gid()),
        (0, 0)
    );
    assert_eq!(
        std::fs::read_link(root.join("link")).unwrap(),
        Path::new("../../etc/shadow")
    );
    assert!(look("pipe").file_type().is_fifo());
    assert_eq!(
        (
            look("null").rdev(),
            look("null").permissions().mode() & 0o777
        ),
        (0x103, 0o666)
    );
    let mut value = [0; 64];
    let got = rustix::fs::lgetxattr(root.join("capable"), "security.capability", &mut value[..]);
    assert_eq!(&value[..got.unwrap()], capability);
    let redirect = rustix::fs::lgetxattr(
        root.join("marked"),
        "trusted.overlay.redirect",
        &mut value[..],
    );
    assert_eq!(redirect, Err(rustix::io::Errno::NODATA));
    // Eight things in the archive have an inode, for two names share one; the root directory
    // and three of the store's own come to it. All of them may be one file.
    let files = match form() {
        StoreForm::Files => 8 + 1,
        StoreForm::Erofs => 1,
    };
    assert_eq!(place.images.fs_info().inodes_used, files + 3);
}

#[tokio::test]
async fn undescribed_directories_look_as_they_do_below() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let top = || Layer::new().file("tmp/f", "x", 0o644);
    let sticky = || Layer::new().owner(5, 6).dir("tmp", 0o1777);
    let plain = || Layer::new().dir("tmp", 0o755);
    let mode = async |image: &Image| {
        let root = &place.images.layers(&image.id).await.unwrap()[0];
        let look = std::fs::metadata(root.join("tmp")).unwrap();
        (look.mode() & 0o7777, look.uid())
    };
    // The same top layer above three different ones, in an order that could mix them up.
    let alone = pulled(&registry, &place, ImageBuilder::new().layer(top())).await;
    assert_eq!(mode(&alone).await, (0o755, 0));
    let above = pulled(
        &registry,
        &place,
        ImageBuilder::new().layer(sticky()).layer(top()),
    )
    .await;
    assert_eq!(mode(&above).await, (0o1777, 5));
    let again = pulled(
        &registry,
        &place,
        ImageBuilder::new().layer(plain()).layer(top()),
    )
    .await;
    assert_eq!(mode(&again).await, (0o755, 0));
    assert_eq!(mode(&alone).await, (0o755, 0));
}

#[tokio::test]
async fn sparse_files_of_every_format_keep_content_and_holes() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let dir = place.scratch.subdir("sparse");
    let size: u64 = 40 << 20;
    let file = std::fs::File::create(dir.join("file")).unwrap();
    file.set_len(size).unwrap();
    let mut expected = BTreeMap::new();
    for n in 0..40_u64 {
        let at = n * (1 << 20) + n * 4096;
        std::os::unix::fs::FileExt::write_all_at(&file, &[n as u8 + 1; 5000], at).unwrap();
        expected.insert(at, n as u8 + 1);
    }
    for format in [
        "gnu",
        "posix",
        "posix --sparse-version=0.1",
        "posix --sparse-version=0.0",
    ] {
        let archive = place.scratch.path("sparse.tar");
        let mut command = Command::new("tar");
        command
            .args(["--sparse", "-C"])
            .arg(&dir)
            .arg("-cf")
            .arg(&archive);
        let mut words = format.split(' ');
        command
            .arg(format!("--format={}", words.next().unwrap()))
            .args(words)
            .arg("file");
        assert!(command.status().unwrap().success());
        let tar = std::fs::read(&archive).unwrap();
        assert!(tar.len() < 1 << 20, "{format} is not sparse");
        let image = pulled(
            &registry,
            &place,
            ImageBuilder::new().archive(tar, Compression::Gzip),
        )
        .await;
        let path = place.images.layers(&image.id).await.unwrap()[0].join("file");
        let look = std::fs::metadata(&path).unwrap();
        assert_eq!(look.len(), size, "{format}");
        // Of a file in an image the kernel says how many blocks it would have without holes.
        let taken = match form() {
            StoreForm::Files => look.blocks() * 512,
            StoreForm::Erofs => place.images.get(&image.id).map_or(0, |_| {
                let newest = place.entries("layers").into_iter().max_by_key(|dir| {
                    let look = std::fs::metadata(dir).unwrap();
                    (look.ctime(), look.ctime_nsec())
                });
                let image = newest.unwrap().join("fs.erofs");
                std::fs::metadata(image).unwrap().len()
            }),
        };
        assert!(taken < 2 << 20, "{format}: the holes are filled");
        assert!(
            std::fs::read(&path).unwrap() == std::fs::read(dir.join("file")).unwrap(),
            "{format}"
        );
    }
}

#[tokio::test]
async fn paths_that_try_to_leave_end_inside() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let layer = Layer::new()
        .symlink("up", "../../../..")
        .file("up/one", "1", 0o644)
        .symlink("conf", "/etc")
        .file("conf/two", "2", 0o644)
        .dir("dir", 0o755)
        .file("dir/before", "", 0o644)
        .symlink("dir", "/")
        .file("dir/three", "3", 0o644)
        .raw(tar::EntryType::Regular, b"/absolute", b"", b"4")
        .raw(tar::EntryType::Regular, b"bytes\xff\xfe", b"", b"5")
        .raw(tar::EntryType::Link, b"hard", b"/absolute", b"")
        .file("twice", "first", 0o644)
        .file("twice", "second", 0o644);
    let image = pulled(&registry, &place, ImageBuilder::new().layer(layer)).await;
    let root = &place.images.layers(&image.id).await.unwrap()[0];
    for (path, text) in [
        ("one", "1"),
        ("three", "3"),
        ("absolute", "4"),
        ("hard", "4"),
        ("twice", "second"),
    ] {
        assert_eq!(
            std::fs::read_to_string(root.join(path)).unwrap(),
            text,
            "{path}"
        );
    }
    // The link led nowhere in this layer, so where it leads was made.
    assert_eq!(std::fs::read_to_string(root.join("etc/two")).unwrap(), "2");
    assert!(!Path::new("/etc/two").exists() && !Path::new("/one").exists());
    assert!(!Path::new("/three").exists());
    assert_eq!(
        std::fs::read_dir(root)
            .unwrap()
            .flatten()
            .filter(|e| e.file_name().len() == 7)
            .count(),
        1
    );
}

#[tokio::test]
async fn hostile_archives_are_refused_by_name_and_leave_nothing() {
    use tar::EntryType::{Link, Regular, Symlink};
    let registry = Registry::start();
    let place = Place::with(|config| {
        config.limits.layer_bytes = 1 << 20;
        config.limits.layer_entries = 1000;
        config.limits.bookkeeping_bytes = 4096;
        config.limits.overhead_bytes = 3 << 20;
    })
    .await;
    let raw = |kind, name: &[u8], target: &[u8]| Layer::new().raw(kind, name, target, b"").tar();
    let many = (0..1001).fold(Layer::new(), |layer, n| {
        layer.file(&format!("f{n}"), "", 0o644)
    });
    let dirs = (0..200).fold(Layer::new(), |layer, n| layer.dir(&format!("d{n}"), 0o755));
    let whole = Layer::new().noise("f", 100_000).tar();
    let mut flipped = whole.clone();
    flipped[5] ^= 1;
    let bomb = [&whole[..], &vec![0; 4 << 20]].concat();
    let long_name = "x".repeat(4096);
    let deep = format!("{}f", "d/".repeat(3000));
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        ("parent", raw(Regular, b"../escape", b""), "leads out"),
        (
            "inner parent",
            raw(Regular, b"a/../../escape", b""),
            "leads out",
        ),
        (
            "hard link out",
            raw(Link, b"a", b"../../etc/passwd"),
            "leads out",
        ),
        (
            "hard link to nothing",
            raw(Link, b"a", b"etc/passwd"),
            "not in the layer",
        ),
        (
            "link to nothing",
            raw(Symlink, b"a", b""),
            "an empty or invalid target",
        ),
        (
            "file as directory",
            Layer::new()
                .file("a", "", 0o644)
                .file("a/b", "", 0o644)
                .tar(),
            "not a directory",
        ),
        (
            "link loop",
            Layer::new()
                .symlink("a", "b")
                .symlink("b", "a")
                .file("a/f", "", 0o644)
                .tar(),
            "too many symbolic links",
        ),
        (
            "hard link to a directory",
            Layer::new().dir("d", 0o755).hardlink("l", "d", 0o644).tar(),
            "to a directory",
        ),
        (
            "long component",
            Layer::new().file(&"x".repeat(300), "", 0o644).tar(),
            "too long",
        ),
        (
            "long path",
            Layer::new().file(&deep, "", 0o644).tar(),
            "too long",
        ),
        (
            "a whiteout that names no file",
            raw(Regular, b"d/.wh.", b""),
            "a whiteout without a file name",
        ),
        (
            "whiteout of the parent",
            raw(Regular, b"d/.wh...", b""),
            "a whiteout without a file name",
        ),
        (
            "unknown type",
            raw(tar::EntryType::new(b'Z'), b"z", b""),
            "unknown type",
        ),
        ("too many files", many.tar(), "exceeds the limit of 1000"),
        ("too many directories", dirs.tar(), "directory list"),
        (
            "too many bytes",
            Layer::new().file("zeros", vec![0; 2 << 20], 0o644).tar(),
            "exceeds the limit",
        ),
        ("a bomb behind the end", bomb, "the tar metadata of"),
        (
            "a name of 4096 bytes",
            Layer::new().file(&long_name, "", 0o644).tar(),
            "too long",
        ),
        ("cut off", whole[..50_000].to_vec(), "in the middle"),
        ("damaged header", flipped, "checksum"),
        ("not an archive", vec![7; 4096], "malformed"),
    ];
    for (name, tar, reason) in table {
        for how in [Compression::Gzip, Compression::Zstd, Compression::Plain] {
            let built = ImageBuilder::new()
                .archive(tar.clone(), how)
                .marked(name)
                .build();
            registry.push(&built, "bad:1").await;
            let error = place.pull(&registry.reference("bad:1")).await.unwrap_err();
            assert!(error.to_string().contains(reason), "{name}: {error}");
            for dir in ["layers", "tmp", "ingest"] {
                until(&format!("{name}: {dir}"), || place.entries(dir).is_empty()).await;
            }
        }
    }
}
