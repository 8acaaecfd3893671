//! Modules of WebAssembly: as images of layers, and as artifacts that have no archive.

use orlop_image_store::Error;
use orlop_testkit::image::{Ending, module};
use orlop_testkit::{BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule};
use serde_json::json;

use crate::support::{Place, file};

fn hello() -> Vec<u8> {
    module("ahoy\n", Ending::Code(0))
}

#[tokio::test]
async fn a_module_that_is_no_archive_is_a_file_of_the_image() {
    let registry = Registry::start();
    let mut place = Place::open().await;
    let artifact = BuiltImage::wasm_artifact(&hello());
    let name = registry.push(&artifact, "artifact:1").await;
    let image = place.pull(&name).await.expect("pull");
    assert_eq!(image.id.to_string(), artifact.id());
    assert_eq!(image.size, hello().len() as u64);
    assert_eq!(image.config.module.as_deref(), Some("/module.wasm"));
    assert!(file(&place, &image, "module.wasm").await == (0o755, hello()));

    // Another image with the same module has it under its own name.
    let other = BuiltImage::wasm_image(&hello(), &["demo.wasm", "x"]);
    let name = registry.push(&other, "image:1").await;
    let other = place.pull(&name).await.expect("pull");
    assert!(file(&place, &other, "demo.wasm").await == (0o755, hello()));
    assert_eq!(place.layer_dirs(), 2);

    // The next start and the next pull find them, and their layers are looked after as any.
    place.reopen().await;
    place.pull(&name).await.expect("pull again");
    assert_eq!(place.layer_dirs(), 2);
    let verified = place.images.verify(false).await;
    let verified = verified.expect("verify");
    assert_eq!((verified.sound, verified.unchecked), (2, 0), "{verified:?}");
    place.assert_not_exported(&name).await;
    place.remove_all(&[image, other]).await;
}

#[tokio::test]
async fn a_module_is_imported_from_a_layout() {
    let place = Place::open().await;
    let built = BuiltImage::wasm_image(&hello(), &["demo.wasm"]);
    let dir = place.scratch.subdir("layout");
    built.write_oci_layout(&dir, "a.example/demo:1");
    let images = place.import_layout(&dir).await.expect("import");
    assert!(file(&place, &images[0], "demo.wasm").await.1 == hello());
}

#[tokio::test]
async fn images_for_wasi_are_pulled_where_there_is_nothing_for_the_machine() {
    let registry = Registry::start();
    let place = Place::open().await;
    let of = |os: &str| {
        let layer = Layer::new().file("app.wasm", hello(), 0o644);
        let image = ImageBuilder::new().platform(os, "wasm").layer(layer);
        image.config("Cmd", json!(["/app.wasm"])).build()
    };
    for os in ["wasip1", "wasi"] {
        let name = registry.push(&of(os), &format!("{os}:1")).await;
        let image = place.pull(&name).await.expect("pull");
        assert_eq!(image.config.os, os);
        assert!(image.config.platform().is_wasm() && image.config.module.is_none());
        assert!(file(&place, &image, "app.wasm").await.1 == hello());
    }
    let entry = |image: BuiltImage, os: &str, architecture: &str| {
        (image, json!({ "os": os, "architecture": architecture }))
    };
    let machine = ImageBuilder::new()
        .layer(Layer::new().file("f", "x", 0o644))
        .build();
    let architecture = orlop_image_store::Platform::host()
        .architecture()
        .to_owned();
    let (old, new) = (
        entry(of("wasi"), "wasi", "wasm32"),
        entry(of("wasip1"), "wasip1", "wasm"),
    );
    let both = BuiltImage::index_of(vec![new.clone(), entry(machine, "linux", &architecture)]);
    let name = registry.push(&both, "both:1").await;
    assert_eq!(place.pull(&name).await.expect("pull").config.os, "linux");
    let modules = BuiltImage::index_of(vec![old.clone(), new]);
    let name = registry.push(&modules, "modules:1").await;
    assert_eq!(place.pull(&name).await.expect("pull").config.os, "wasip1");
    let windows = entry(of("wasip1"), "windows", "amd64");
    let rest = BuiltImage::index_of(vec![windows, old]);
    let name = registry.push(&rest, "rest:1").await;
    assert_eq!(place.pull(&name).await.expect("pull").config.os, "wasi");
}

#[tokio::test]
async fn what_is_no_proper_artifact_is_refused_with_the_reason() {
    const CONFIG: &str = "application/vnd.wasm.config.v0+json";
    const MODULE: &str = "application/wasm";
    let registry = Registry::start();
    let place = Place::with(|config| config.limits.image_bytes = 4096).await;
    let (hello, other) = (hello(), module("other", Ending::Never));
    let named = |of: &[u8]| {
        json!({ "architecture": "wasm", "os": "wasip1",
            "layerDigests": [orlop_testkit::image::digest(of)] })
    };
    let plain = ImageBuilder::new()
        .layer(Layer::new().file("f", "x", 0o644))
        .build();
    let plain: serde_json::Value = serde_json::from_slice(&plain.config.bytes).expect("JSON");
    let outside = BuiltImage::wasm_image(&hello, &["../../demo.wasm"]);
    let large = vec![0; 4097];
    let mut component = named(&hello);
    component["os"] = "wasip2".into();
    let (config, one) = (named(&hello), (MODULE, &hello[..]));
    let of_module = BuiltImage::of_module;
    for (what, artifact, reason) in [
        (
            "of-another",
            of_module(CONFIG, &config, &[(MODULE, &other)]),
            "does not contain the digest",
        ),
        (
            "two",
            of_module(CONFIG, &config, &[one, (MODULE, &other)]),
            "exactly one module",
        ),
        (
            "none",
            of_module(CONFIG, &config, &[]),
            "exactly one module",
        ),
        (
            "component",
            of_module(CONFIG, &component, &[one]),
            "is for wasip2",
        ),
        (
            "a-text",
            of_module(CONFIG, &named(b"x"), &[("text/plain", b"x")]),
            "unknown type",
        ),
        (
            "for-linux",
            of_module(CONFIG, &plain, &[one]),
            "unknown type",
        ),
        (
            "large",
            of_module(CONFIG, &named(&large), &[(MODULE, &large)]),
            "exceeds the limit",
        ),
        ("outside", outside, ".."),
    ] {
        let name = registry.push(&artifact, &format!("{what}:1")).await;
        let error = place.pull(&name).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{what}: {error}");
    }
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
}

#[tokio::test]
async fn a_module_that_came_damaged_is_not_kept() {
    let place = Place::open().await;
    let artifact = BuiltImage::wasm_artifact(&hello());
    let proxy = FaultProxy::alone();
    let kind = &artifact.top.media_type;
    proxy.rule(Rule::on(
        "manifests/1",
        Fault::content(kind, artifact.top.bytes.clone()),
    ));
    proxy.rule(Rule::on(
        artifact.id(),
        Fault::content("", artifact.config.bytes.clone()),
    ));
    let mut damaged = hello();
    *damaged.last_mut().expect("bytes") ^= 1;
    let blob = &artifact.layers[0].digest;
    proxy.rule(Rule::on(blob, Fault::content("", damaged)));
    let error = place.pull(&proxy.reference("demo:1")).await.unwrap_err();
    assert!(matches!(error, Error::DigestMismatch { .. }), "{error}");
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
}
