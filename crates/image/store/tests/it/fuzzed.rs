//! A bounded run of fuzzing (`ORLOP_FUZZ_SECONDS` for more): no
//! input panics, hangs, gets out of its directory or means two things.

use orlop_image_store::fuzzing;
use orlop_testkit::{Fuzz, Layer, Scratch};
use serde_json::json;

#[test]
fn no_reference_breaks_the_parser() {
    Fuzz::new()
        .example("busybox")
        .example("docker.io/library/busybox:1.36@sha256:0000000000000000000000000000000000000000000000000000000000000000")
        .example("[::1]:5000/a/b_c__d/e-f.g:tag")
        .example("localhost:5000/x@sha512:00")
        .words(["docker.io/", "index.docker.io", "library/", "@sha256:", ":latest", "//", "..", "é"])
        .run(fuzzing::reference);
}

#[test]
fn no_manifest_breaks_the_parser() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let oci = |kind: &str| format!("application/vnd.oci.image.{kind}");
    let descriptor = |kind: &str| json!({ "mediaType": kind, "digest": digest, "size": 7 });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": oci("manifest.v1+json"),
        "config": descriptor(&oci("config.v1+json")),
        "layers": [
            descriptor(&oci("layer.v1.tar+gzip")),
            { "mediaType": oci("layer.nondistributable.v1.tar"), "digest": digest, "size": 1,
              "urls": ["https://a.example/x"] },
        ],
    });
    let file = |title: &str| {
        json!({ "mediaType": "text/plain", "digest": digest, "size": 7,
            "annotations": { "org.opencontainers.image.title": title } })
    };
    let artifact = json!({
        "schemaVersion": 2,
        "artifactType": "application/vnd.x",
        "config": descriptor(&oci("empty.v1+json").replace("image.", "")),
        "layers": [file("/a/b"), file("..c")],
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": oci("index.v1+json"),
        "manifests": [{
            "mediaType": oci("manifest.v1+json"), "digest": digest, "size": 7,
            "platform": { "os": "linux", "architecture": "arm", "variant": "v7" },
        }],
    });
    let config = json!({
        "os": "linux", "architecture": "amd64", "created": "2020-01-01T00:00:00Z",
        "config": { "User": "1:2", "Env": ["A=b"], "Volumes": { "/v": {} }, "Labels": { "a": "b" } },
        "rootfs": { "type": "layers", "diff_ids": [digest] },
    });
    Fuzz::new()
        .example(manifest.to_string())
        .example(index.to_string())
        .example(config.to_string())
        .example(r#"{"schemaVersion":1,"fsLayers":[],"history":[]}"#)
        .example(artifact.to_string())
        .words([
            "null",
            "{}",
            "[]",
            "-1",
            "18446744073709551616",
            "1e999",
            "\"\"",
            "[[[[[[",
        ])
        .words([
            "\"manifests\":",
            "\"layers\":",
            "\"config\":",
            "\"platform\":",
            "\\ud800",
        ])
        .run(fuzzing::manifest);
}

#[test]
fn no_hosts_file_breaks_the_parser() {
    Fuzz::new()
        .example(
            r#"
            server = "https://upstream.example"
            ca = "ca.pem"
            [host."https://mirror.example:5000/v2"]
              capabilities = ["pull", "resolve"]
              override_path = true
              skip_verify = true
              ca = ["one.pem", "/abs/two.pem"]
              client = [["c.pem", "k.pem"], "both.pem"]
              dial_timeout = "3s"
              [host."https://mirror.example:5000/v2".header]
                x-one = ["1", "2"]
            "#,
        )
        .example(
            r#"Bearer realm="https://a/token",service="s",scope="repository:a:pull",error="x""#,
        )
        .example(r#"Basic realm="a \" b", Digest a=b"#)
        .words([
            "http://",
            "[::1]",
            "\"\"\"",
            "[[host]]",
            "host.",
            "999999999999999999999m",
            "\\u0000",
        ])
        .run(fuzzing::hosts);
}

#[test]
fn no_registries_file_breaks_the_parser() {
    Fuzz::new()
        .example(
            r#"
            unqualified-search-registries = ["a.example:5000", "docker.io"]
            short-name-mode = "permissive"
            credential-helpers = ["containers-auth.json", "x"]
            [[registry]]
            prefix = "*.example:5000"
            location = "a.example/b"
            insecure = true
            [[registry.mirror]]
            location = "m.example/x/y"
            pull-from-mirror = "tag-only"
            [[registry]]
            prefix = "docker.io/library/busybox:latest"
            blocked = false
            location = "c.example/busy:latest"
            [aliases]
            "team/app" = "b.example/app"
            "#,
        )
        .example("[registries.search]\nregistries = [\"a.example\"]\n")
        .words([
            "[[registry]]",
            "[[registry.mirror]]",
            "[aliases]",
            "prefix = ",
            "location = ",
        ])
        .words([
            "blocked = true",
            "mirror-by-digest-only = true",
            "*.",
            "\"",
            ":",
            "@sha256:",
            "[",
            "é",
        ])
        .run(fuzzing::registries);
}

#[test]
fn no_policy_breaks_the_parser() {
    let signed = |key: &str, identity: serde_json::Value| json!([{ "type": "sigstoreSigned", key: "/k.pub", "signedIdentity": identity }]);
    let policy = json!({
        "default": [{ "type": "reject" }],
        "transports": {
            "docker": {
                "": [{ "type": "insecureAcceptAnything" }],
                "*.a.example": signed("keyPath", json!({ "type": "matchRepository" })),
                "a.example:5000/b": signed("keyPath", json!({
                    "type": "remapIdentity", "prefix": "a.example", "signedPrefix": "b.example",
                })),
                "a.example/gpg": [{ "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k.gpg" }],
                "docker.io/library/busybox:1": signed("keyPath", json!({
                    "type": "exactReference", "dockerReference": "a/b:1",
                })),
                "c.example": [{
                    "type": "sigstoreSigned",
                    "rekorPublicKeyPaths": ["/r.pub"],
                    "tsaCAPath": "/tsa.pem",
                    "predicateTypes": ["https://slsa.dev/provenance/v1"],
                    "signedIdentity": { "type": "matchDigest" },
                    "fulcio": {
                        "caPath": "/ca.pem", "oidcIssuer": "https://c.example",
                        "subjectPattern": "https://c.example/*/x@refs/**",
                        "ctLogPublicKeyPath": "/ct.pub",
                    },
                }],
                "d.example": [{
                    "type": "sigstoreSigned",
                    "pki": {
                        "caRootsPath": "/ca.pem", "caIntermediatesPath": "/ca.pem",
                        "subjectEmail": "a@b.example", "subjectHostname": "b.example",
                    },
                }],
            },
            "dir": { "/x": [{ "type": "reject" }] },
        },
    });
    let payload = orlop_testkit::signature::payload(
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "a.example/b:1",
    );
    let attestations = json!({
        "schemaVersion": 2,
        "layers": [{
            "mediaType": "application/vnd.dsse.envelope.v1+json",
            "digest": format!("sha256:{}", "0".repeat(64)),
            "size": 4000,
            "annotations": { "predicateType": "x", "dev.sigstore.cosign/bundle": "{}" },
        }],
    });
    let list = json!({
        "schemaVersion": 2,
        "layers": [{
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": format!("sha256:{}", "0".repeat(64)),
            "size": 7,
            "annotations": {
                "dev.cosignproject.cosign/signature": "c2ln",
                "dev.sigstore.cosign/certificate": "x",
                "dev.sigstore.cosign/chain": "x",
                "dev.sigstore.cosign/bundle": "x",
            },
        }],
    });
    let attached = json!({
        "schemaVersion": 2,
        "manifests": [{
            "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "digest": format!("sha256:{}", "0".repeat(64)),
            "annotations": { "dev.sigstore.bundle.predicateType": "x" },
        }],
        "layers": [{
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "digest": format!("sha256:{}", "0".repeat(64)),
            "size": 7,
        }],
    });
    Fuzz::new()
        .example(policy.to_string())
        .example(attestations.to_string())
        .example(payload)
        .example(list.to_string())
        .example(attached.to_string())
        .words([
            "null",
            "{}",
            "[]",
            "-1",
            "1e999",
            "\"keyData\":\"LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0K\"",
            "\"keyPaths\":[",
            "\"type\":\"signedBy\"",
            "\"keyType\":\"GPGKeys\"",
            "atomic container signature",
            "\"fulcio\":{}",
            "\\ud800",
        ])
        .words(["[[[[[[", "*.", "@sha256:", "://", "\"default\":", "é"])
        .run(fuzzing::policy);
}

#[test]
fn no_file_of_key_providers_leads_elsewhere() {
    Fuzz::new()
        .example(r#"{"key-providers":{"a":{"cmd":{"path":"/bin/a","args":["x"]}},"b":{"grpc":"localhost:50051"}}}"#)
        .example(r#"{"key-providers":{"a":{"grpc":"[::1]:1"},"b":{"grpc":"127.0.0.2:9"},"c":{"grpc":"unix:///x"}}}"#)
        .words(["unix:", "localhost", "0.0.0.0", "[::ffff:10.0.0.1]", "127.", ":65535", "dns:///", "\"grpc\":"])
        .run(fuzzing::key_providers);
}

#[test]
fn no_file_of_signature_stores_breaks_the_parser() {
    Fuzz::new()
        .example("default-docker:\n  lookaside: file:///var/lib/containers/sigstore\n")
        .example(
            "docker:\n  '*.a.example': {sigstore: 'https://b.example/x%20y'}\n  a.example/b:1:\n    \
             use-sigstore-attachments: no\n    lookaside-staging: file:///x\n",
        )
        .words(["docker:", "&a [*a, *a]", "<<: *a", "://", "file://", "%00", "? [", "!!binary", "\t"])
        .run(fuzzing::signature_stores);
}

#[test]
fn no_layer_gets_out_of_its_directory() {
    use tar::EntryType::{Link, Regular, Symlink};
    let scratch = Scratch::new();
    let honest = || {
        Layer::new()
            .dir("d", 0o755)
            .file("d/f", "content", 0o644)
            .symlink("up", "../../..")
            .symlink("d/abs", "/d")
            .hardlink("again", "d/f", 0o644)
            .file("d/abs/g", "through a link", 0o600)
            .opaque("d")
            .whiteout("gone")
            .fifo("pipe", 0o600)
            .device("null", 1, 3, 0o666)
            .xattr("user.name", b"value")
            .dir(&"long/".repeat(60), 0o755)
            .tar()
    };
    let hostile = Layer::new()
        .raw(Regular, b"../escape", b"", b"x")
        .raw(Link, b"hard", b"../../../etc/passwd", b"")
        .raw(Symlink, b"s", b"s", b"")
        .raw(Regular, b"s/x", b"", b"y");
    let zipped = |bytes: &[u8]| {
        use std::io::Write;
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    };
    let fuzz = Fuzz::new()
        .example(honest())
        .example(hostile.tar())
        .example(zipped(&honest()))
        .example(zstd::encode_all(&honest()[..], 1).unwrap())
        .words(["../", "/etc", ".wh.", ".wh..wh..opq", "\0", "7777777"])
        .words([
            "28 GNU.sparse.size=99999999\n",
            "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n",
            "13 path=../x\n",
        ])
        .repair(sign);
    fuzz.run(|input| {
        let dir = scratch.subdir("one");
        fuzzing::layer(input, &dir).unwrap();
        orlop_fs::remove_tree(&dir).unwrap();
    });
}

/// Gives every block that could be a header the checksum that it needs.
fn sign(archive: &mut Vec<u8>, chance: &mut orlop_testkit::Chance) {
    if archive.starts_with(&[0x1f, 0x8b]) || archive.starts_with(&[0x28, 0xb5]) {
        return;
    }
    if chance.below(2) == 0 {
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    orlop_testkit::mutation::mend_tar_checksums(archive);
}
