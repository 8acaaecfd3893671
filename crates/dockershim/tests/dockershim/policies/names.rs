//! What short names stand for.

use orlop_image_store::RegistriesFile;
use orlop_testkit::{machine, skip_unless};

use crate::policies::scene::{Scene, container, repository};

#[tokio::test]
async fn a_short_name_is_never_docker_hubs_where_a_file_says_what_it_is() {
    skip_unless!(machine::has_program("docker-registry"));
    skip_unless!(machine::has_program("openssl"));
    let scene = Box::pin(Scene::with(false, |config, registry| {
        let path = config.root.with_file_name("registries.conf");
        let host = registry.host();
        let text = format!("unqualified-search-registries = [\"{host}\"]\n");
        std::fs::write(&path, text).unwrap();
        let images = config.policies.as_mut().unwrap();
        images.registries = RegistriesFile::at(path);
    }))
    .await;
    let (image, name) = scene.push("short").await;
    scene.sign(image.digest(), &name).await;
    let id = scene.pull("short:1").await.expect("pull by a short name");
    assert_eq!(id, image.id());
    let by_digest = format!("{}@{}", repository(&name), image.digest());
    assert_eq!(scene.engine.names(&id), [name.clone(), by_digest]);
    for known in ["short:1", &name, &id, &id[7..20]] {
        assert_eq!(scene.status(known).await.as_deref(), Some(&*id), "{known}");
    }
    let of_hub = "docker.io/library/short:1";
    assert_eq!(scene.status(of_hub).await, None);
    // Somebody has another in the engine that is called so.
    let foreign = format!("sha256:{:064x}", 7);
    scene.engine.has(of_hub, &foreign);
    assert_eq!(scene.status("short:1").await.as_deref(), Some(&*id));
    let (main, main_name) = scene.push("main").await;
    scene.sign(main.digest(), &main_name).await;
    scene.pull("main:1").await.expect("pull by a short name");
    let made = scene.create(container("main:1", Some("short:1"))).await;
    let made = made.expect("create");
    assert_eq!(made["Image"], main.id());
    assert_eq!(made["HostConfig"]["Mounts"][0]["Source"], image.id());
    let refused = scene.create(container(of_hub, None)).await;
    refused.expect_err("nobody speaks for it");
    scene.remove("short:1").await;
    assert_eq!(scene.status("short:1").await, None);
    assert_eq!(scene.engine.names(&foreign), ["short:1"]);
    scene.shim.stop().await;
}
