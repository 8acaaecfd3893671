//! Block IO classes: weights and rates in an administrator's file, in the format that containerd and CRI-O
//! read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use orlop_oci_types::{BlockIo, BlockWeight, Throttle};
use orlop_text::quantity::Quantity;
use serde::Deserialize;

use super::Error;
use super::classes::{Kind, asked};
use super::input::Known;

/// The range of weights in a class.
const WEIGHTS: std::ops::RangeInclusive<u16> = 10..=1000;

/// The classes of a node, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIoClasses(BTreeMap<String, Vec<Part>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "Classes", default)]
    classes: BTreeMap<String, Vec<RawPart>>,
}

/// Limits of some devices, or of all.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
#[derive(Default)]
struct RawPart {
    devices: Vec<String>,
    weight: Option<Scalar>,
    throttle_read_bps: Option<Scalar>,
    throttle_write_bps: Option<Scalar>,
    #[serde(rename = "ThrottleReadIOPS")]
    throttle_read_iops: Option<Scalar>,
    #[serde(rename = "ThrottleWriteIOPS")]
    throttle_write_iops: Option<Scalar>,
}

/// A number, or its text: people write `80` and `"80"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(u64),
    Text(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Part {
    devices: Vec<String>,
    weight: Option<u16>,
    read_bps: Option<u64>,
    write_bps: Option<u64>,
    read_iops: Option<u64>,
    write_iops: Option<u64>,
}

impl BlockIoClasses {
    /// Reads a file of classes.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = orlop_fs::read_text(path, orlop_fs::SMALL_FILE)
            .map_err(|error| format!("reading {}: {error}", path.display()))?;
        Self::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = orlop_yaml::from_str(text).map_err(|error| error.to_string())?;
        let mut classes = BTreeMap::new();
        for (name, parts) in file.classes {
            let parts: Result<Vec<Part>, String> = parts.into_iter().map(part).collect();
            let parts = parts.map_err(|problem| format!("class {name}: {problem}"))?;
            classes.insert(name, parts);
        }
        Ok(Self(classes))
    }

    pub(super) fn limits(&self, class: &str) -> Result<BlockIo, String> {
        let Some(parts) = self.0.get(class) else {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            return Err(format!(
                "class {class:?} does not exist; available classes: {}",
                known.join(", ")
            ));
        };
        let mut limits = BlockIo::default();
        for part in parts {
            if part.devices.is_empty() {
                limits.weight = part.weight;
                continue;
            }
            for (major, minor) in devices(&part.devices)? {
                if part.weight.is_some() {
                    limits.weight_device.push(BlockWeight {
                        major,
                        minor,
                        weight: part.weight,
                        leaf_weight: None,
                    });
                }
                for (rate, list) in [
                    (part.read_bps, &mut limits.throttle_read_bps_device),
                    (part.write_bps, &mut limits.throttle_write_bps_device),
                    (part.read_iops, &mut limits.throttle_read_iops_device),
                    (part.write_iops, &mut limits.throttle_write_iops_device),
                ] {
                    list.extend(rate.map(|rate| Throttle { major, minor, rate }));
                }
            }
        }
        Ok(limits)
    }
}

/// Returns the limits of the class that a container asks for, if any.
pub(super) fn limits(known: &Known<'_>) -> Result<Option<BlockIo>, Error> {
    let Some((class, annotation)) = asked(Kind::BlockIo, known.config, known.pod_config)? else {
        return Ok(None);
    };
    let field = format!("annotation {annotation}");
    let Some(classes) = &known.policy.block_io else {
        let problem =
            format!("class {class:?} does not exist: containers.blockio_config defines no classes");
        return Err(Error::unmet(field, problem));
    };
    if !known.host.block_io {
        let problem = "this node has no cgroup controller for block IO (io or blkio)";
        return Err(Error::unmet(field, problem));
    }
    let limits = classes.limits(class);
    limits
        .map(Some)
        .map_err(|problem| Error::unmet(field, problem))
}

fn part(raw: RawPart) -> Result<Part, String> {
    let weight = match &raw.weight {
        Some(value) => {
            let weight = quantity(value)?;
            let weight = u16::try_from(weight)
                .ok()
                .filter(|own| WEIGHTS.contains(own));
            Some(weight.ok_or("a weight must be between 10 and 1000")?)
        }
        None => None,
    };
    let rate = |value: Option<Scalar>| value.as_ref().map(quantity).transpose();
    let part = Part {
        weight,
        read_bps: rate(raw.throttle_read_bps)?,
        write_bps: rate(raw.throttle_write_bps)?,
        read_iops: rate(raw.throttle_read_iops)?,
        write_iops: rate(raw.throttle_write_iops)?,
        devices: raw.devices,
    };
    let throttles = [
        part.read_bps,
        part.write_bps,
        part.read_iops,
        part.write_iops,
    ];
    if part.devices.is_empty() && throttles.iter().any(Option::is_some) {
        return Err("a rate requires Devices".to_owned());
    }
    if let Some(bad) = part.devices.iter().find(|own| !own.starts_with("/dev/")) {
        return Err(format!("{bad:?} is not a path below /dev"));
    }
    Ok(part)
}

/// Parses a quantity in Kubernetes' notation: `60M`, `1Gi`, `200`.
fn quantity(value: &Scalar) -> Result<u64, String> {
    let text = match value {
        Scalar::Number(number) => return Ok(*number),
        Scalar::Text(text) => text.trim(),
    };
    let amount: Option<Quantity> = text.parse().ok();
    amount
        .and_then(Quantity::count)
        .ok_or_else(|| format!("{text:?} is not a quantity; use a number such as 200, 60M or 1Gi"))
}

/// Returns the block devices that match any of the patterns. A pattern without a match is an error: its
/// limits would silently have no effect.
fn devices(patterns: &[String]) -> Result<Vec<(i64, i64)>, String> {
    let mut found = Vec::new();
    for pattern in patterns {
        let before = found.len();
        for path in paths(pattern) {
            let Ok(device) = fs::metadata(&path) else {
                continue;
            };
            if device.file_type().is_block_device() {
                let number = device.rdev();
                let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
                found.push((i64::from(major), i64::from(minor)));
            }
        }
        if found.len() == before {
            return Err(format!("no block device of this node matches {pattern}"));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Returns the paths that match a pattern, whose parts may contain `*`, `?` and `[a-z]`.
fn paths(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            return Vec::new();
        }
        let mut next = Vec::new();
        for dir in &found {
            if !part.contains(['*', '?', '[']) {
                next.push(dir.join(part));
                continue;
            }
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if fits(part.as_bytes(), entry.file_name().as_encoded_bytes()) {
                    next.push(entry.path());
                }
            }
        }
        found = next;
    }
    found
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| fits(rest, &name[taken..])),
        ([b'?', rest @ ..], [_, tail @ ..]) => fits(rest, tail),
        ([b'[', rest @ ..], [first, tail @ ..]) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                return false;
            };
            among(&rest[..end], *first) && fits(&rest[end + 1..], tail)
        }
        ([byte, rest @ ..], [first, tail @ ..]) => byte == first && fits(rest, tail),
        _ => false,
    }
}

/// Whether a byte matches a class like `a-z0`.
fn among(class: &[u8], byte: u8) -> bool {
    match class {
        [low, b'-', high, rest @ ..] => (*low..=*high).contains(&byte) || among(rest, byte),
        [one, rest @ ..] => *one == byte || among(rest, byte),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
Classes:
  Slow:
  - Weight: 80
  - Devices:
    - /dev/nothing-here
    ThrottleReadBps: 60M
    ThrottleWriteIOPS: \"200\"
  Plain:
  - Weight: \"500\"
";

    #[test]
    fn a_file_of_the_peers_is_understood() {
        let classes = BlockIoClasses::parse(FILE).unwrap();
        let plain = classes.limits("Plain").unwrap();
        assert_eq!(plain.weight, Some(500));
        assert!(plain.weight_device.is_empty());
        let parts = &classes.0["Slow"];
        assert_eq!(parts[1].read_bps, Some(60_000_000));
        assert_eq!(parts[1].write_iops, Some(200));
    }

    #[test]
    fn what_could_not_work_is_named() {
        let classes = BlockIoClasses::parse(FILE).unwrap();
        let missing = classes.limits("Slow").unwrap_err();
        assert!(missing.contains("/dev/nothing-here"), "{missing}");
        let unknown = classes.limits("Fast").unwrap_err();
        assert!(unknown.contains("Plain, Slow"), "{unknown}");
        for (part, word) in [
            ("Weight: 5", "between 10 and 1000"),
            ("ThrottleReadBps: 60M", "Devices"),
            ("{Devices: [/dev/sda], ThrottleReadBps: 60X}", "quantity"),
            ("{Devices: [/etc/passwd], Weight: 50}", "/dev"),
            ("Speed: 3", "Speed"),
        ] {
            let text = format!("Classes:\n  C:\n  - {part}\n");
            let problem = BlockIoClasses::parse(&text).unwrap_err();
            assert!(problem.contains(word), "{part}: {problem}");
        }
    }

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("sd[a-c]", "sdb", true),
            ("sd[a-c]", "sdd", false),
            ("nvme*n1", "nvme0n1", true),
            ("vd?", "vda", true),
            ("vd?", "vda1", false),
            ("*SSD*", "ata-SSD-1", true),
            ("[", "[", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
