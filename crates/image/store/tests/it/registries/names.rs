//! What short names stand for.

use orlop_image_store::{Error, PolicyFiles};
use orlop_testkit::{Fault, Rule, assert_contains};
use serde_json::json;

use super::scene::Scene;

const SEARCH: &str = "unqualified-search-registries = [\"@0\", \"@1\"]\n";

#[tokio::test]
async fn a_short_name_is_looked_for_in_order_and_kept_under_its_full_name() {
    let scene = Scene::new(2).await;
    for mode in ["", "short-name-mode = \"disabled\"\n"] {
        scene.write(&format!("{SEARCH}{mode}"));
        let pull = async || scene.pull("team/app:1").await.is_ok();
        let expected = [0, 1].map(|door| (door, "team/app".to_owned()));
        assert_eq!(scene.sequence(pull).await, expected, "{mode}");
        scene.doors[0].rule(Rule::on("manifests/", Fault::status(404)));
        let image = scene.pull("team/app:1").await.unwrap();
        assert_eq!(image.repo_tags, [scene.with_addresses("@1/team/app:1")]);
        let images = &scene.place.images;
        for name in ["team/app:1", &scene.with_addresses("@1/team/app:1")] {
            let found = images.find(name).await.unwrap();
            assert_eq!(found.map(|it| it.id), Some(image.id), "{name}");
        }
        for name in [
            "team/app:2",
            "docker.io/team/app:1",
            &scene.with_addresses("@0/team/app:1"),
        ] {
            assert_eq!(images.find(name).await.unwrap(), None, "{name}");
        }
        images.remove("team/app:1").await.unwrap();
        assert!(images.list().is_empty());
        scene.doors[1].rule(Rule::on("manifests/", Fault::status(401)));
        let error = scene.pull("team/app:1").await.unwrap_err();
        let Error::Searched { last, .. } = &error else {
            panic!("{error}");
        };
        assert!(matches!(**last, Error::Unauthenticated { .. }), "{error}");
        let conf = format!("{}:1", scene.conf.display());
        for part in [conf, scene.doors[0].host(), scene.doors[1].host()] {
            assert!(error.to_string().contains(&part), "{error}");
        }
        for door in &scene.doors {
            door.heal();
        }
    }
}

#[tokio::test]
async fn an_ambiguous_name_is_refused_where_that_is_wished_even_if_it_is_here() {
    let scene = Scene::new(2).await;
    scene.write(&format!(
        "{SEARCH}short-name-mode = \"enforcing\"\n[aliases]\nmine = \"@1/app\"\n"
    ));
    scene.pull("@0/app:1").await.unwrap();
    let error = scene.pull("app:1").await.unwrap_err();
    assert!(matches!(error, Error::ShortName { .. }), "{error}");
    for part in ["@0/app:1", "@1/app:1"] {
        assert_contains!(error.to_string(), &scene.with_addresses(part));
    }
    let images = &scene.place.images;
    assert_eq!(images.find("app:1").await.unwrap(), None);
    assert_eq!(images.find("mine:1").await.unwrap(), None);
    let image = scene.pull("mine:1").await.unwrap();
    assert!(image.repo_tags.contains(&scene.with_addresses("@1/app:1")));
    assert_eq!(
        images.find("mine:1").await.unwrap().map(|it| it.id),
        Some(image.id)
    );
    // Ids are no names, whatever a broken file says.
    scene.write("[");
    for id in [image.id.to_string(), image.id.hex()] {
        assert!(images.find(&id).await.unwrap().is_some(), "{id}");
    }
    let error = images.find("mine:1").await.unwrap_err();
    assert!(error.to_string().contains("registries.conf:1"), "{error}");
    images.find("app.example/app").await.unwrap();
}

#[tokio::test]
async fn a_policy_judges_the_full_name_and_no_place_that_serves_it() {
    let scene = Scene::with(2, |config, scratch| {
        config.policies = PolicyFiles {
            node: Some(scratch.path("policy.json")),
            namespaces: None,
        };
    })
    .await;
    scene.write(
        "unqualified-search-registries = [\"app.example\"]\n\
         [[registry]]\nprefix = \"app.example\"\nlocation = \"@0\"\n\
         [[registry.mirror]]\nlocation = \"@1\"\n",
    );
    let policy = |scope: &str| {
        let accept = json!([{ "type": "insecureAcceptAnything" }]);
        let text = json!({
            "default": [{ "type": "reject" }],
            "transports": { "docker": { scope: accept } },
        });
        scene.file("policy.json", &text.to_string());
    };
    for scope in ["@0", "@1", "docker.io"] {
        policy(&scene.with_addresses(scope));
        let error = scene.pull("team/app:1").await.unwrap_err();
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        assert_contains!(error.to_string(), "app.example/team/app:1");
    }
    assert_eq!(scene.asked(), []);
    policy("app.example/team");
    scene.pull("team/app:1").await.unwrap();
    scene.pull("app:1").await.unwrap_err();
}
