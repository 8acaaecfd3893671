//! Tests of screenshots.

use super::site::Site;
use super::{Browser, browser, size};
use crate::browser::{PICTURE_LIMIT, Picture};
use crate::{machine, skip_unless};

#[tokio::test]
async fn pictures_are_saved_small() {
    skip_unless!(Browser::can_run());
    skip_unless!(machine::has_program("pngquant"));
    let (site, browser) = (Site::start(), browser().await);
    let list = Picture::list(
        r##"[
            { "name": "light", "path": "/good", "wait_for": "#host:not(:empty)", "width": 800, "height": 600 },
            { "name": "dark", "path": "/good", "wait_for": "h1", "width": 360, "height": 640, "dark": true }
        ]"##,
    )
    .expect("a list");
    let dir = tempfile::tempdir().expect("make a directory");
    let mut saved = Vec::new();
    for picture in &list {
        let file = browser.take(picture, &site.url(""), dir.path()).await;
        let file = file.expect("take a picture");
        assert_eq!(file, dir.path().join(format!("{}.png", picture.name)));
        saved.push(std::fs::read(file).expect("read it"));
    }
    assert_eq!([size(&saved[0]), size(&saved[1])], [(800, 600), (360, 640)]);
    // With a palette, a screenshot is a fraction of the original size.
    let whole = browser.screenshot().await;
    assert!(
        saved[1].len() * 4 < whole.len() * 3,
        "{} of {}",
        saved[1].len(),
        whole.len()
    );

    let mut noise = list[0].clone();
    (noise.width, noise.height) = (500, 400);
    noise.path = "/noise".to_owned();
    noise.wait_for = "canvas[data-done]".to_owned();
    let refused = browser.take(&noise, &site.url(""), dir.path()).await;
    let said = refused.expect_err("noise has no small picture").to_string();
    assert!(
        said.contains(&format!("more than {PICTURE_LIMIT}")),
        "{said}"
    );
}

#[test]
fn a_picture_has_a_plain_name() {
    let named = |name: &str| {
        let picture = serde_json::json!([{
            "name": name, "path": "/", "wait_for": "h1", "width": 1, "height": 1
        }]);
        Picture::list(&picture.to_string())
    };
    assert_eq!(named("pod-1").expect("a name")[0].name, "pod-1");
    for name in ["", "../x", "A", "a.png"] {
        assert!(named(name).is_err(), "{name:?}");
    }
    assert!(Picture::list(r#"[{ "name": "a", "sise": 1 }]"#).is_err());
}
