//! Hostile and odd manifests: each a clear error, before anything large is fetched.

use orlop_image_store::{Digest, Error};
use orlop_testkit::{Fault, FaultProxy, Rule};

use crate::support::Place;

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(kind: &str, digest: &Digest, size: u64) -> String {
    format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
}

fn config(diff_ids: usize) -> String {
    let ids = vec![format!("\"{}\"", Digest::of(b"x")); diff_ids].join(",");
    format!(r#"{{"os":"linux","rootfs":{{"type":"layers","diff_ids":[{ids}]}}}}"#)
}

fn manifest(config: &str, layers: &[String]) -> String {
    let config = descriptor(
        OCI_CONFIG,
        &Digest::of(config.as_bytes()),
        config.len() as u64,
    );
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI_MANIFEST}","config":{config},"layers":[{}]}}"#,
        layers.join(",")
    )
}

fn serve(top: &str, kind: &str, others: &[&str]) -> FaultProxy {
    let proxy = FaultProxy::alone();
    proxy.rule(Rule::on("manifests/1", Fault::content(kind, top)));
    for other in others {
        let digest = Digest::of(other.as_bytes());
        proxy.rule(Rule::on(&digest.to_string(), Fault::content("", *other)));
    }
    proxy
}

#[tokio::test]
async fn impossible_manifests_are_refused() {
    let place = Place::open().await;
    let layer = |size| descriptor(OCI_LAYER, &Digest::of(b"layer"), size);
    let (one, thousand) = (config(1), config(1000));
    let strange = descriptor("application/x-strange", &Digest::of(b"layer"), 1);
    let locked = descriptor(&format!("{OCI_LAYER}+encrypted"), &Digest::of(b"layer"), 1);
    let helm = r#"{"name":"chart"}"#;
    let padded = format!("{}{}", manifest(&one, &[layer(1)]), " ".repeat(5 << 20));
    let table = [
        (
            "ten terabytes",
            manifest(&one, &[layer(10 << 40)]),
            "exceeds the limit",
        ),
        (
            "a thousand layers",
            manifest(&thousand, &vec![layer(1); 1000]),
            "exceeds the limit of 500",
        ),
        (
            "layers that don't add up",
            manifest(&one, &[layer(1), layer(2)]),
            "have different numbers of layers: 2 and 1",
        ),
        ("strange layers", manifest(&one, &[strange]), "unknown type"),
        ("encrypted layers", manifest(&one, &[locked]), "encrypted"),
        (
            "no image",
            manifest(helm, &[layer(1)]),
            "not a container image",
        ),
        (
            "schema 1",
            r#"{"schemaVersion":1,"fsLayers":[],"history":[]}"#.to_owned(),
            "schema 1",
        ),
        ("html", "<html>please log in</html>".to_owned(), "malformed"),
        (
            "five megabytes",
            padded,
            "exceeds the limit of 4194304 bytes",
        ),
    ];
    for (name, text, reason) in table {
        let proxy = serve(&text, OCI_MANIFEST, &[&one, &thousand, helm]);
        let error = place.pull(&proxy.reference("app:1")).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{name}: {error}");
        assert!(error.to_string().contains("app:1"), "{name}: {error}");
    }
}

#[tokio::test]
async fn indexes_end_somewhere_and_digests_are_checked() {
    let place = Place::open().await;
    let mut texts = vec![manifest(&config(0), &[])];
    for _ in 0..6 {
        let inner = texts.last().unwrap();
        let entry = descriptor(OCI_INDEX, &Digest::of(inner.as_bytes()), inner.len() as u64);
        texts.push(format!(
            r#"{{"schemaVersion":2,"mediaType":"{OCI_INDEX}","manifests":[{entry}]}}"#
        ));
    }
    let others: Vec<&str> = texts.iter().map(String::as_str).collect();
    let proxy = serve(&texts[6], OCI_INDEX, &others);
    let error = place.pull(&proxy.reference("app:1")).await.unwrap_err();
    assert!(error.to_string().contains("nested more than"), "{error}");

    let promised = Digest::of(b"promised");
    let proxy = FaultProxy::alone();
    proxy.rule(Rule::on(
        "manifests/",
        Fault::content(OCI_MANIFEST, texts[0].clone()),
    ));
    let error = place
        .pull(&proxy.reference(&format!("app@{promised}")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::DigestMismatch { .. }), "{error}");
    assert!(place.images.list().is_empty());
}

#[tokio::test]
async fn an_image_without_layers_is_an_image() {
    let place = Place::open().await;
    let config = config(0);
    let proxy = serve(&manifest(&config, &[]), OCI_MANIFEST, &[&config]);
    let image = place.pull(&proxy.reference("app:1")).await.unwrap();
    assert_eq!(image.size, 0);
    let mount = place.images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(
        std::fs::read_dir(crate::support::inside(&mount, ""))
            .unwrap()
            .count(),
        0
    );
}
