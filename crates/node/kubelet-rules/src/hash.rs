//! The kubelet's hash of a container's definition, to detect changes.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};

use crate::pod::Container;

/// The kubelet's hash of a container's definition. It covers name and image only. A node can switch
/// between a kubelet and this program without restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContainerHash(pub u64);

impl ContainerHash {
    /// Hashes a container's definition.
    pub fn of(container: &Container) -> Self {
        let json = format!(
            r#"{{"image":{},"name":{}}}"#,
            serde_json::Value::from(container.image.as_str()),
            serde_json::Value::from(container.name.as_str()),
        );
        // The kubelet hashes a Go dump of the JSON's bytes, not the JSON itself.
        let mut dump = String::from("([]uint8)[");
        for (i, byte) in json.bytes().enumerate() {
            if i > 0 {
                dump.push(' ');
            }
            dump.push_str(&byte.to_string());
        }
        dump.push(']');
        Self(u64::from(fnv32a(dump.as_bytes())))
    }
}

impl fmt::Display for ContainerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for ContainerHash {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// Returns the 32-bit FNV-1a hash.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the 64-bit FNV-1a hash.
pub fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the SHA-256 hash in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    orlop_text::hex::encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_fnvs() {
        // The test vectors of the FNV draft.
        assert_eq!(fnv32a(b""), 0x811c_9dc5);
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv64a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv64a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_kubelet_finds_its_own_hash() {
        let container = Container {
            name: "test_container".to_owned(),
            image: "foo/image:v1".to_owned(),
            args: vec!["anything".to_owned()],
            ..Container::default()
        };
        let hash = ContainerHash::of(&container);
        assert_eq!(hash.to_string(), "8e45cbd0");
        assert_eq!("8e45cbd0".parse(), Ok(hash));
    }
}
