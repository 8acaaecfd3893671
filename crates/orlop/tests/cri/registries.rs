//! `registries.conf` and credentials of namespaces, as kubelets and pods meet them.

use std::path::PathBuf;

use orlop_cri_api::v1::{ImageFilter, ImageSpec, ListImagesRequest};
use orlop_testkit::proxy::Door;
use orlop_testkit::registry::Login;
use orlop_testkit::{
    ContainerSpec, FaultProxy, ImageBuilder, Node, PodSpec, Scratch, assert_contains,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::world::{World, world};

/// A node with a `registries.conf`, a policy and a directory of credentials.
struct Scene {
    world: World,
    scratch: Scratch,
}

macro_rules! scene {
    () => {{
        let scratch = Scratch::new();
        let node = Node::orlop().drop_in(&settings(&scratch));
        let world = world!(node);
        Scene { world, scratch }
    }};
}

/// The configuration; names lead where they say at first.
fn settings(scratch: &Scratch) -> String {
    let (conf, namespaces) = (
        scratch.path("registries.conf"),
        scratch.subdir("namespaces"),
    );
    let policy = scratch.path("policy.json");
    std::fs::write(&conf, "").expect("write a registries.conf");
    std::fs::write(&policy, accepting().to_string()).expect("write a policy");
    format!(
        "[images]\nregistries_conf = {conf:?}\ncredentials_dir = {namespaces:?}\n\
         signature_policy = {policy:?}\n"
    )
}

/// A policy that lets any image be used.
fn accepting() -> Value {
    json!({ "default": [{ "type": "insecureAcceptAnything" }] })
}

impl Scene {
    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.scratch.path(file);
        std::fs::write(&path, text).expect("write a file");
        path
    }

    /// What one of orlop's own commands prints, and whether it succeeds.
    fn run(&self, line: &[&str]) -> (bool, String) {
        self.world.node.client().said(line)
    }

    fn pod(&self, name: &str, namespace: &str) -> PodSpec {
        let namespace = namespace.to_owned();
        self.world.node.pod(name).with(move |config| {
            config.metadata.get_or_insert_default().namespace = namespace;
        })
    }
}

#[tokio::test]
async fn a_short_name_is_pulled_found_run_and_removed_by_what_it_stands_for() {
    let scene = scene!();
    let host = scene.world.registry.host();
    let image = ImageBuilder::busybox().marked("short").build();
    let full = scene.world.registry.push(&image, "short-app:1").await;
    let conf = format!(
        "unqualified-search-registries = [\"{host}\"]\nshort-name-mode = \"enforcing\"\n\
         [[registry]]\nlocation = \"blocked.example\"\nblocked = true\n"
    );
    let path = scene.write("registries.conf", &conf);
    let of_registry = json!({
        "default": [{ "type": "reject" }],
        "transports": { "docker": { &host: [{ "type": "insecureAcceptAnything" }] } },
    });
    scene.write("policy.json", &of_registry.to_string());
    let cri = &scene.world.cri;
    // A kubelet adds the tag, and nothing else.
    let name = "short-app:1";
    assert_eq!(cri.image(name).await.expect("status"), None);
    let id = cri.pull(name).await.expect("pull a short name");
    for asked in [name, &full] {
        let found = cri.image(asked).await.expect("status").expect("it is here");
        assert_eq!(
            (&found.id, &found.repo_tags[..]),
            (&id, &[full.clone()][..])
        );
        let request = ListImagesRequest {
            filter: Some(ImageFilter {
                image: Some(ImageSpec {
                    image: asked.to_owned(),
                    ..ImageSpec::default()
                }),
            }),
        };
        let listed = cri.images().list_images(request).await.expect("list");
        assert_eq!(listed.into_inner().images.len(), 1, "{asked}");
        let (shown, text) = scene.run(&["inspecti", asked]);
        assert!(shown && text.contains(&full), "{text}");
    }
    assert_eq!(
        cri.image("docker.io/library/short-app:1")
            .await
            .expect("status"),
        None
    );
    // The policy is for the full name: by name, and by the id with the name beside it.
    let pod = scene.pod("short", "default");
    let pod_id = scene.world.run_pod(&pod).await;
    let by_id = ImageSpec {
        image: id.clone(),
        user_specified_image: name.to_owned(),
        ..ImageSpec::default()
    };
    let by_id = ContainerSpec::new("by-id", &id)
        .shell("true")
        .with(move |config| config.image = Some(by_id));
    let by_name = ContainerSpec::new("by-name", name).shell("true");
    for spec in [by_id, by_name] {
        let container = cri.run(&pod_id, &pod, &spec).await.expect("run it");
        assert_eq!(cri.wait_exited(&container).await.exit_code, 0);
    }
    let (allowed, text) = scene.run(&["image", "policy", name]);
    assert!(allowed && text.starts_with(&full), "{text}");
    let (served, text) = scene.run(&["image", "resolve", name]);
    assert!(served, "{text}");
    let place = format!("{}:1", path.display());
    for part in [
        &*full,
        &place,
        &format!("http://{host}/v2/short-app: tags and content"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = scene.run(&["image", "resolve", "-o", "json", name]);
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(told["names"][0]["name"], json!(full), "{told}");
    // What may be two images is none.
    let ambiguous = conf.replace("registries = [", "registries = [\"docker.io\", ");
    scene.write("registries.conf", &ambiguous);
    let refused = cri.pull(name).await.expect_err("it is ambiguous");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    for part in [&*full, "docker.io/library/short-app:1", &place] {
        assert!(refused.message().contains(part), "{refused}");
    }
    assert_eq!(cri.image(name).await.expect("status"), None);
    let (served, text) = scene.run(&["image", "resolve", name]);
    assert!(!served && text.contains("refused: "), "{text}");
    scene.write("policy.json", &accepting().to_string());
    let refused = cri.pull("blocked.example/app:1").await;
    let refused = refused.expect_err("it is blocked");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let place = format!("{}:5", path.display());
    assert!(refused.message().contains(&place), "{refused}");
    scene.write("registries.conf", &conf);
    cri.remove_image(name).await.expect("remove");
    assert_eq!(cri.image(&full).await.expect("status"), None);
    scene.world.finish().await;
}

#[tokio::test]
async fn credentials_of_a_namespace_are_for_its_pods_alone() {
    let scene = scene!();
    let image = ImageBuilder::busybox().marked("private").build();
    scene.world.registry.push(&image, "private:1").await;
    let guarded = FaultProxy::before(scene.world.registry.address());
    guarded.guard(Door::Basic(Login::new("team", "hush")));
    let name = guarded.reference("private:1");
    let login = json!({ "username": "team", "password": "hush" });
    let auths = json!({ "auths": { format!("{}/private", guarded.host()): login } });
    let file = scene.write("namespaces/team.json", &auths.to_string());
    let [team, other] = ["team", "other"].map(|namespace| scene.pod(namespace, namespace));
    let cri = &scene.world.cri;
    let (mine, theirs) = tokio::join!(cri.pull_for(&name, &team), cri.pull_for(&name, &other));
    let id = mine.expect("the namespace has credentials");
    let by_digest = guarded.reference(&format!("private@{}", image.digest()));
    let mut refusals = vec![theirs.expect_err("it has none")];
    for name in [&name, &by_digest] {
        assert_eq!(cri.pull_for(name, &team).await.expect("pull again"), id);
        refusals.push(cri.pull_for(name, &other).await.expect_err("it has none"));
        refusals.push(cri.pull(name).await.expect_err("nobody's has none"));
    }
    for refused in refusals {
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        assert!(!refused.message().contains("hush"), "{refused}");
    }
    let (_, text) = scene.run(&["image", "resolve", "--namespace", "team", &name]);
    assert_contains!(text, "credentials of ", "team.json");
    assert!(!text.contains("hush"), "{text}");
    let (_, text) = scene.run(&["image", "resolve", &name]);
    assert!(text.contains("no credentials"), "{text}");
    std::fs::write(&file, "hush").expect("break the file");
    let doctor = scene.world.doctor().await;
    assert!(
        doctor.contains("team.json") && !doctor.contains("hush"),
        "{doctor}"
    );
    scene.write("registries.conf", "\n[[registry]]\nblokced = true\n");
    let doctor = scene.world.doctor().await;
    assert!(doctor.contains("registries.conf:3"), "{doctor}");
    let refused = cri.pull(&name).await.expect_err("the file is broken");
    assert!(refused.message().contains("registries.conf:3"), "{refused}");
    scene.world.finish().await;
}
