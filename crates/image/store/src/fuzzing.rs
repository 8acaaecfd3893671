//! Entry points for fuzzing the parsers of untrusted input. Not part of the public interface.

use std::io::Cursor;
use std::path::{Component, Path};

use crate::admission::{bundle_of, listed, listed_attestations};
use crate::artifact::Artifact;
use crate::limits::Limits;
use crate::lookaside::parse_stores;
use crate::manifest::{Document, choose};
use crate::policy::{Kind, Payload, Policy, scope};
use crate::registries::{Asking, Document as Registry, Registries};
use crate::registry::{listed_referrers, parse_challenge, parse_hosts};
use crate::tape::{Recorder, play};
use crate::unpack::{Layer, LayerMemory, unpack};
use crate::{Digest, ImageConfig, Platform, Reference};

/// Checks that a parsed reference and its normalized text are equivalent.
pub fn reference(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(reference) = text.parse::<Reference>() {
        let again = reference.to_string().parse::<Reference>();
        assert_eq!(again.ok(), Some(reference), "{text:?}");
    }
}

/// Parses manifests, indexes and configurations.
pub fn manifest(data: &[u8]) {
    let index_type = "application/vnd.oci.image.index.v1+json";
    for content_type in [None, Some(index_type), Some("application/json")] {
        if let Ok(Document::Index(entries)) = Document::parse("fuzzed", data, content_type) {
            let _ = choose("fuzzed", &entries, &Platform::host());
        }
    }
    if let Ok(artifact) = Artifact::parse("fuzzed", data) {
        for path in artifact
            .layers
            .iter()
            .filter_map(|layer| layer.file.as_ref())
        {
            let names = Path::new(path).components();
            let within = |name| matches!(name, Component::Normal(_));
            assert!(
                names.clone().count() > 0 && names.clone().all(within),
                "{path:?}"
            );
        }
    }
    if let Ok(config) = ImageConfig::parse("fuzzed", data) {
        let _ = (config.uid(), config.username());
    }
}

/// Parses a `hosts.toml` and an authentication challenge.
pub fn hosts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_hosts(&text, Path::new("/etc/certs.d/x"), "registry.example:5000");
    let _ = parse_challenge(&text);
}

/// Parses a `registries.conf`, and checks that rewritten names keep their tag.
pub fn registries(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(document) = Registry::parse(Path::new("/etc/registries.conf"), &text) else {
        return;
    };
    let mut registries = Registries::default();
    registries.adopt(document);
    for name in [
        "busybox",
        "team/app:1",
        "a.example/b/c",
        "x.b.example:5000/d",
    ] {
        let Ok(candidates) = registries.candidates(name) else {
            continue;
        };
        let Ok(meant) = name.parse::<Reference>() else {
            continue;
        };
        for name in candidates.names {
            assert_eq!(name.selector(), meant.selector());
            let asking = Asking::For(name.selector().clone());
            if let Ok(sources) = registries.sources(name.repository(), &asking) {
                let own = sources.last();
                assert!(own.is_some_and(|own| !own.is_mirror && own.serves(&asking)));
            }
        }
    }
}

/// Parses a signature policy, a signature payload, and lists of signatures and attached artifacts.
pub fn policy(data: &[u8]) {
    let names = ["busybox", "a.example:5000/b/c:1", "[::1]:5000/x"];
    if let Ok(policy) = Policy::parse(Path::new("/etc/policy.json"), data) {
        for name in names
            .iter()
            .filter_map(|name| name.parse::<Reference>().ok())
        {
            assert!(!policy.requirements(Some(&name)).list.is_empty());
        }
    }
    if let Ok(scope) = scope::normal(&String::from_utf8_lossy(data)) {
        let _ = scope::unused(&scope);
    }
    let _ = Payload::parse(Kind::Cosign, data);
    let _ = Payload::parse(Kind::Atomic, data);
    let _ = listed("fuzzed", data);
    let _ = listed_attestations("fuzzed", data);
    let _ = bundle_of("fuzzed", data);
    let _ = listed_referrers("fuzzed", data, |kind| !kind.is_empty());
}

/// Parses a file of key providers, and checks that each of them is on this machine.
pub fn key_providers(data: &[u8]) {
    if let Some(addresses) = crate::decryption::provider_addresses(data) {
        for address in addresses {
            assert!(address.ip().is_loopback(), "{address}");
        }
    }
}

/// Parses a configuration file of signature stores.
pub fn signature_stores(data: &[u8]) {
    let _ = parse_stores(&String::from_utf8_lossy(data));
}

/// Unpacks a layer, and checks that no file is written outside its directory and that the tape reproduces the
/// archive. `dir` is an empty directory.
pub fn layer(data: &[u8], dir: &Path) -> std::io::Result<()> {
    let (root, tape) = (dir.join("fs"), dir.join("tape"));
    std::fs::create_dir(&root)?;
    let limits = Limits {
        layer_bytes: 1 << 20,
        layer_entries: 2000,
        header_bytes: 64 << 10,
        overhead_bytes: 4 << 20,
        bookkeeping_bytes: 256 << 10,
        ..Limits::default()
    };
    let layer = Layer {
        what: "fuzzed",
        blob: None,
        diff_id: None,
        secret: None,
        file: None,
        abandon: &|| {},
        spending: &(),
        memory: &LayerMemory::of_client(),
    };
    let recorder = Recorder::create(&tape).map_err(std::io::Error::other)?;
    if let Ok((unpacked, recorder)) = unpack(&layer, Cursor::new(data), recorder, &root, &limits)
        && recorder.finish().is_ok_and(|replayable| replayable)
    {
        let mut again = Vec::new();
        play(&tape, &root, &mut again).map_err(std::io::Error::other)?;
        assert_eq!(again.len() as u64, unpacked.archive_bytes);
        if data.first() == again.first() && data.len() == again.len() {
            assert_eq!(Digest::of(&again), Digest::of(data), "another archive");
        }
    }
    let mut there: Vec<_> = std::fs::read_dir(dir)?
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .collect();
    there.sort();
    assert_eq!(there, ["fs", "tape"], "something was made beside the layer");
    Ok(())
}
