//! Many entries.

use orlop_erofs::read::{Limits, Reader};
use orlop_erofs::{Error, Limit, Options};
use orlop_testkit::{machine, skip_unless};

use crate::kernel::Mounted;
use crate::model::{Model, attributes, path};

#[test]
fn a_directory_of_seventy_thousand_is_found_whole() {
    skip_unless!(machine::is_root());
    let file = tempfile::tempfile_in("/var/tmp").expect("make a file");
    let mut model = Model::new(file);
    model.directory(&path("many"), attributes(0o755));
    for number in 0..70_000_u32 {
        // Not in the order in which they are sorted.
        let mixed = number.wrapping_mul(2_654_435_761);
        let content = mixed.to_le_bytes();
        model.file(
            &path(&format!("many/{mixed}")),
            attributes(0o644),
            &content,
            &[(0, 4)],
        );
    }
    let (expected, file, _) = model.finish();
    let reader = Reader::open(&file).expect("open");
    let census = reader.check(Limits::default()).expect("is sound");
    assert_eq!(census.entries, 70_001);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn more_than_is_allowed_is_refused() {
    let options = Options {
        max_entries: 3,
        max_name_bytes: 10,
        max_xattr_bytes: 20,
        ..Options::default()
    };
    let file = tempfile::tempfile().expect("make a file");
    let mut image = orlop_erofs::Image::create(file, options).expect("create");
    let plain = attributes(0o644);
    let mut noted = attributes(0o644);
    noted.xattrs.insert(b"user.n".to_vec(), vec![0; 10]);
    image.fifo(&[b"one"], &noted).expect("fits");
    let refused = image.fifo(&[b"two"], &noted);
    assert!(matches!(
        refused,
        Err(Error::TooMany(Limit::XattrBytes(20)))
    ));
    let refused = image.directory(&[], noted);
    assert!(matches!(
        refused,
        Err(Error::TooMany(Limit::XattrBytes(20)))
    ));
    let refused = image.fifo(&[b"eight888"], &plain);
    assert!(matches!(refused, Err(Error::TooMany(Limit::NameBytes(10)))));
    image.fifo(&[b"2"], &plain).expect("fits");
    image.link(&[b"2"], &[b"3"]).expect("fits");
    let refused = image.link(&[b"2"], &[b"4"]);
    assert!(matches!(refused, Err(Error::TooMany(Limit::Entries(3)))));
    image.finish().expect("finish");
}

#[test]
fn what_no_image_can_have_is_refused() {
    let file = tempfile::tempfile().expect("make a file");
    let mut image = orlop_erofs::Image::create(file, Options::default()).expect("create");
    let plain = attributes(0o644);
    let device = image.device(&[b"d"], &plain, orlop_erofs::Kind::Block, (4096, 0));
    assert!(matches!(device, Err(Error::Device(4096, 0))));
    for target in [&b""[..], b"a\0b", &[b't'; 4096]] {
        let refused = image.symlink(&[b"s"], &plain, target);
        assert!(matches!(refused, Err(Error::Target(_))));
    }
    image
        .directory(&[b"dir"], plain.clone())
        .expect("directory");
    let refused = image.link(&[b"dir"], &[b"other"]);
    assert!(matches!(refused, Err(Error::LinkToDirectory(_))));
    image.fifo(&[b"f"], &plain).expect("fifo");
    let refused = image.set_attributes(&[b"f"], plain.clone());
    assert!(matches!(refused, Err(Error::NotADirectory(_))));
    let mut noted = plain.clone();
    noted
        .xattrs
        .insert(b"btrfs.compression".to_vec(), b"no".to_vec());
    for refused in [
        image.fifo(&[b"g"], &noted),
        image.set_attributes(&[b"dir"], noted.clone()),
    ] {
        assert!(matches!(refused, Err(Error::XattrName(_))));
    }
    assert!(matches!(image.remove(&[]), Err(Error::Root)));
    assert!(!image.remove(&[b"nothing"]).expect("is no failure"));
}
