//! Size of an index.

use serde_json::json;

use super::layer::{Format, Writer};
use crate::{Digest, Limits};

#[test]
fn a_file_costs_45_bytes_until_its_content_is_read() {
    const FILES: usize = 30_000;
    let digest = Digest::of(b"x").to_string();
    let mut writer = Writer::new(Format::EStargz);
    writer.file("content", b"x", 10);
    let mut names = 0;
    for at in 0..FILES {
        // Average length of names in images, with realistic numbers of distinct times.
        let name = format!("usr/lib/package-{}/some-file-{at}.x", at % 1000);
        names += format!("some-file-{at}.x").len();
        let minute = at % 1000 % 60;
        writer.entries.push(
            json!({"name": name, "type": "reg", "size": 1, "mode": 0o644,
            "modtime": format!("2024-01-01T00:{minute:02}:00Z"), "chunkDigest": digest}),
        );
    }
    let index = writer.finish().index(&Limits::default()).unwrap();
    let chunks = index.chunks() as usize * 60;
    let each = (index.bytes().len() - chunks) as f64 / FILES as f64;
    let name = names as f64 / FILES as f64;
    assert!((16.0..19.0).contains(&name), "{name}");
    // 20 for the node, 8 for the entry, and the name; a thirtieth of a directory.
    assert!(each < name + 30.0, "{each}");
}
