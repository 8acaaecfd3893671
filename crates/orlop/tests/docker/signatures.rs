//! Signature policies on the docker backend: what is refused never reaches the engine, and what was judged is what runs.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{AuthConfig, ImageSpec, Mount};
use orlop_testkit::image::Blob;
use orlop_testkit::policy::{accept, assert_refused, by_id, reject};
use orlop_testkit::{
    ContainerSpec, Fault, FaultProxy, Gpg, ImageBuilder, KeyKind, PodSpec, Registry, Rule, Signer,
    machine, node, skip_unless,
};
use serde_json::json;
use tonic::Code;

use crate::guarded::{Guarded, Settings, guarded};
use crate::world::BUSYBOX;

#[tokio::test(flavor = "multi_thread")]
async fn only_signed_images_reach_the_engine_and_run() {
    let guarded = guarded!();
    let (image, name) = guarded.push("signed").await;
    guarded.demand(&guarded.registry.host(), "matchRepoDigestOrExact");
    guarded.tap.take();
    let cri = &guarded.world.cri;
    assert_refused(cri.pull(&name).await, "has no signature");
    assert_refused(cri.pull("elsewhere.invalid/x:1").await, "(default)");
    assert_eq!(guarded.pulled(), [""; 0]);
    assert_eq!(cri.image(&name).await.unwrap(), None);
    let (allowed, told) = guarded.policy(&[&name]);
    assert!(!allowed && told.contains("has no signature"), "{told}");

    guarded.sign(image.digest(), &name).await;
    let id = cri.pull(&name).await.expect("pull what is signed");
    let pulled = guarded.pulled();
    assert_eq!(pulled.len(), 1, "{pulled:?}");
    let digest = image.digest().replacen(':', "%3A", 1);
    assert!(pulled[0].ends_with(&format!("&tag={digest}")), "{pulled:?}");
    let known = cri.image(&name).await.unwrap().expect("it is there");
    assert_eq!((&known.id, &known.repo_tags), (&id, &vec![name.clone()]));
    let repository = name.strip_suffix(":1").unwrap();
    let by_digest = format!("{repository}@{}", image.digest());
    assert!(known.repo_digests.iter().eq([&by_digest]));
    let (allowed, told) = guarded.policy(&[&name]);
    assert!(allowed && told.contains("yes sigstoreSigned"), "{told}");
    // What is there already is judged, and not pulled again.
    assert_eq!(cri.pull(&name).await.unwrap(), id);
    assert_eq!(cri.pull(&by_digest).await.unwrap(), id);
    assert_eq!(guarded.pulled(), [""; 0]);

    let pod = guarded.pod("run", "default").await;
    let container = guarded.create(&pod, "main", &id, &name).await.unwrap();
    assert!(guarded.world.inspect(&container, "{{.Image}}") == id);
    cri.start(&container).await.unwrap();
    let ended = cri.wait_exited(&container).await;
    assert_eq!(ended.exit_code, 0);
    assert_eq!(ended.image.unwrap().image, name);
    let spec = ContainerSpec::new("named", &name).shell("true");
    let named = cri.create(&pod.1, &pod.0, &spec).await.expect("by name");
    let status = cri.status(&named).await.unwrap();
    assert_eq!(status.image.unwrap().image, name);

    // What came by other ways has no signatures, whatever it is called.
    let unpulled = ContainerSpec::new("loaded", BUSYBOX).shell("true");
    assert_refused(cri.create(&pod.1, &pod.0, &unpulled).await, "(default)");
    let (loaded, unsigned) = guarded.push("loaded").await;
    guarded.world.engine.load(&loaded, &unsigned);
    let words = ["image", "inspect", "--format", "{{.Id}}", &*unsigned];
    let loaded = guarded.world.engine.docker(&words);
    for asked in [&*unsigned, &*loaded] {
        let spec = ContainerSpec::new("loaded", asked).shell("true");
        let refused = cri.create(&pod.1, &pod.0, &spec).await;
        assert_refused(refused, "pull it over the CRI");
    }
    let elsewhere = guarded.create(&pod, "else", &id, "elsewhere.example/signed:1");
    assert_refused(elsewhere.await, "(default)");
    let missing = ContainerSpec::new("missing", "elsewhere.example/none:1");
    let missing = cri.create(&pod.1, &pod.0, &missing).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound, "{missing}");
    assert_eq!(cri.containers().await.unwrap().len(), 2);
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_signed_with_gpg_runs_until_its_key_is_revoked() {
    skip_unless!(machine::has_program("gpg"));
    let guarded = guarded!();
    let (gpg, cri) = (Gpg::new(), &guarded.world.cri);
    let (image, name) = guarded.push("by-gpg").await;
    let key = gpg.make_key("team <team@a.example>", "ed25519", "sign", "never");
    let (keys, store) = (
        guarded.scratch.path("team.gpg"),
        guarded.scratch.subdir("store"),
    );
    std::fs::write(&keys, gpg.export(&key)).unwrap();
    let stores = format!("default-docker:\n  lookaside: file://{}\n", store.display());
    guarded.set("registries.d/store.yaml", &stores);
    let signed = json!([{ "type": "signedBy", "keyType": "GPGKeys", "keyPath": keys }]);
    guarded.set("policy.json", &json!({ "default": signed }).to_string());
    guarded.tap.take();
    assert_refused(cri.pull(&name).await, "has no signature");
    assert_eq!(guarded.pulled(), [""; 0]);
    let place = format!("by-gpg@{}", image.digest().replacen(':', "=", 1));
    std::fs::create_dir(store.join(&place)).unwrap();
    let signature = gpg.sign_image(&key, image.digest(), &name);
    std::fs::write(store.join(place).join("signature-1"), signature).unwrap();
    let id = cri.pull(&name).await.expect("pull what is signed");
    let pod = guarded.pod("gpg", "default").await;
    let created = guarded.create(&pod, "main", &id, &name).await;
    created.expect("create a container of what is signed");
    gpg.revoke(&key);
    std::fs::write(&keys, gpg.export(&key)).unwrap();
    let reason = format!("the key {key} (team <team@a.example>) is revoked");
    let refused = guarded.create(&pod, "again", &id, &name).await;
    assert_refused(refused, &reason);
    let (allowed, told) = guarded.policy(&[&name]);
    assert!(!allowed && told.contains(&reason), "{told}");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moves_while_it_is_pulled_brings_what_was_judged() {
    let guarded = guarded!();
    let (image, _) = guarded.push("moving").await;
    let (other, _) = guarded.push("moved").await;
    guarded.registry.push(&other, "moving:other").await;
    let proxy = FaultProxy::before(guarded.registry.address());
    let name = proxy.reference("moving:1");
    guarded.demand(&proxy.host(), "matchExact");
    guarded.sign(image.digest(), &name).await;
    // Whoever asks for the tag a second time gets another image.
    let content = Fault::content(&other.top.media_type, other.top.bytes.clone());
    proxy.rule(Rule::on("/manifests/1", content).skip(1));
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull what was judged");
    assert_eq!(id, guarded.id_of(&image, image.digest()));
    let known = cri.image(&name).await.unwrap().expect("it is there");
    assert_eq!(known.id, id);
    let pod = guarded.pod("moving", "default").await;
    let container = guarded.create(&pod, "main", &id, &name).await.unwrap();
    assert_eq!(guarded.world.inspect(&container, "{{.Image}}"), id);
    // The one that the tag means now is not signed.
    assert_refused(cri.pull(&name).await, "has no signature");
    // A name that was given to another image meanwhile means that one.
    guarded.world.engine.load(&other, &name);
    let spec = ContainerSpec::new("renamed", &name).shell("true");
    let refused = cri.create(&pod.1, &pod.0, &spec).await;
    assert_refused(refused, "pull it over the CRI");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_holds_for_what_is_there_over_restarts_and_without_a_registry() {
    let mut guarded = guarded!();
    let (image, _) = guarded.push("changing").await;
    let (_, unsigned) = guarded.push("unsigned").await;
    let proxy = FaultProxy::before(guarded.registry.address());
    let name = proxy.reference("changing:1");
    guarded.sign(image.digest(), &name).await;
    let id = guarded.world.cri.pull(&name).await.expect("pull");
    let unsigned_id = guarded.world.cri.pull(&unsigned).await.expect("pull");
    let pod = guarded.pod("change", "default").await;
    let created = guarded.create(&pod, "any", &unsigned_id, &unsigned).await;
    created.expect("any image");
    guarded.restart().await;
    proxy.leave();
    // No restart for this one.
    guarded.demand(&proxy.host(), "matchExact");
    let created = guarded.create(&pod, "signed", &id, &name).await;
    created.expect("it is signed");
    let refused = guarded.create(&pod, "bare", &unsigned_id, &unsigned).await;
    assert_refused(refused, "(default)");
    let host = guarded.registry.host();
    guarded.demand(&host, "matchExact");
    let refused = guarded.create(&pod, "bare", &unsigned_id, &unsigned).await;
    assert_refused(refused, "has no signature");
    guarded.signer = Signer::new(&guarded.scratch.subdir("keys"), "other", KeyKind::Ed25519);
    guarded.demand(&proxy.host(), "matchExact");
    guarded.world.crash().await;
    guarded.world.wait_ready(true).await;
    let refused = guarded.create(&pod, "rekeyed", &id, &name).await;
    assert_refused(refused, "it is not signed with");
    guarded.set("policy.json", "{\n  \"default\": [\n");
    let refused = guarded.create(&pod, "broken", &id, &name).await;
    assert_refused(refused, "policy.json: EOF while parsing");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_may_be_signed_or_what_it_leads_to() {
    let guarded = guarded!();
    guarded.demand(&guarded.registry.host(), "matchExact");
    let cri = &guarded.world.cri;
    let pod = guarded.pod("index", "default").await;
    for mark in ["whole", "part"] {
        let image = ImageBuilder::busybox().marked(mark).index().build();
        let name = guarded.registry.push(&image, &format!("{mark}:1")).await;
        assert_refused(cri.pull(&name).await, "has no signature");
        let names_it = |it: &&Blob| String::from_utf8_lossy(&it.bytes).contains(image.id());
        let own = image.manifests.iter().find(names_it);
        let signed = match mark {
            "whole" => image.digest(),
            _ => &own.expect("one for this machine").digest,
        };
        guarded.sign(signed, &name).await;
        let id = cri.pull(&name).await.expect("pull what is signed");
        assert_eq!(id, guarded.id_of(&image, signed));
        let known = cri.image(&name).await.unwrap().expect("it is there");
        // As it is called in a pod that names it by digest, unless containers could get something else of it.
        let of_index = id == image.id() || id == image.digest();
        let digest = if of_index { image.digest() } else { signed };
        let is_known = |name: &String| name.ends_with(&format!("{mark}@{digest}"));
        assert!(known.repo_digests.iter().any(is_known), "{known:?}");
        let created = guarded.create(&pod, mark, &id, &name).await;
        created.expect("create a container of what is signed");
    }
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_pull_are_both_clients() {
    let guarded = guarded!(Registry::start_with_login, |_| Settings::default());
    let (image, name) = guarded.push("secret").await;
    guarded.demand(&guarded.registry.host(), "matchExact");
    guarded.sign(image.digest(), &name).await;
    guarded.tap.take();
    let cri = &guarded.world.cri;
    let denied = cri.pull(&name).await.unwrap_err();
    assert_eq!(denied.code(), Code::Unauthenticated, "{denied}");
    assert_eq!(guarded.pulled(), [""; 0]);
    let login = guarded.registry.login().unwrap();
    let auth = AuthConfig {
        username: login.user.clone(),
        password: login.password.clone(),
        ..AuthConfig::default()
    };
    let id = cri.pull_as(&name, Some(auth)).await.expect("pull");
    assert_eq!(id, guarded.id_of(&image, image.digest()));
    // That it is here is no leave to have it.
    let denied = cri.pull(&name).await.unwrap_err();
    assert_eq!(denied.code(), Code::Unauthenticated, "{denied}");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_have_policies_of_their_own() {
    let guarded = guarded!();
    let (_, name) = guarded.push("spaces").await;
    let strict = json!({ "default": reject() }).to_string();
    guarded.set("namespaces/strict.json", &strict);
    let cri = &guarded.world.cri;
    let strict = guarded.pod("strict", "strict").await;
    let free = guarded.pod("free", "free").await;
    assert_refused(cri.pull_for(&name, &strict.0).await, "strict.json");
    let id = cri.pull_for(&name, &free.0).await.expect("pull");
    let refused = guarded.create(&strict, "main", &id, &name).await;
    assert_refused(refused, "strict.json");
    // The pod's is the one that counts, whatever the request says.
    let free_words = (free.0.clone(), strict.1.clone());
    let refused = guarded.create(&free_words, "main", &id, &name).await;
    assert_refused(refused, "strict.json");
    let created = guarded.create(&free, "main", &id, &name).await;
    created.expect("create");
    let (allowed, _) = guarded.policy(&["--namespace", "free", &name]);
    let (refused, told) = guarded.policy(&["--namespace", "strict", &name]);
    assert!(allowed && !refused, "{told}");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_two_names_may_be_used_by_the_one_that_is_signed_until_it_is_removed() {
    let guarded = guarded!();
    let (image, name) = guarded.push("twice").await;
    let other = guarded.registry.push(&image, "twin:1").await;
    guarded.demand(&guarded.registry.host(), "matchExact");
    guarded.sign(image.digest(), &name).await;
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull");
    guarded.world.engine.docker(&["tag", &id, &other]);
    let pod = guarded.pod("names", "default").await;
    let refused = guarded.create(&pod, "twin", &id, &other).await;
    assert_refused(refused, "twice:1, not for");
    let nameless = guarded.create(&pod, "nameless", &id, "").await;
    cri.remove(&nameless.expect("one of its names"))
        .await
        .unwrap();
    assert_eq!(guarded.records().len(), 1);
    cri.remove_image(&name).await.expect("remove it");
    assert!(guarded.records().is_empty());
    guarded.world.engine.load(&image, &name);
    let refused = guarded.create(&pod, "back", &id, &name).await;
    assert_refused(refused, "pull it over the CRI");
    assert_eq!(cri.pull(&name).await.expect("pull"), id);
    let created = guarded.create(&pod, "back", &id, &name).await;
    created.expect("its signature is known again");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_mounted_is_judged_as_well() {
    let guarded = guarded!();
    let (image, name) = guarded.push("model").await;
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull");
    let (main, main_name) = guarded.push("main").await;
    guarded.sign(main.digest(), &main_name).await;
    let main = cri.pull(&main_name).await.expect("pull");
    let pod = guarded.pod("mounts", "default").await;
    let mounting = |container: &str| {
        let mounted = ImageSpec {
            image: id.clone(),
            user_specified_image: name.clone(),
            ..ImageSpec::default()
        };
        by_id(container, &main, &main_name)
            .shell("ls /model/bin/busybox")
            .with(|config| {
                config.mounts.push(Mount {
                    container_path: "/model".into(),
                    readonly: true,
                    image: Some(mounted),
                    ..Mount::default()
                });
            })
    };
    guarded.demand(&guarded.registry.host(), "matchExact");
    let refused = cri.create(&pod.1, &pod.0, &mounting("bare")).await;
    assert_refused(refused, "has no signature");
    guarded.sign(image.digest(), &name).await;
    assert_eq!(cri.pull(&name).await.expect("its signature"), id);
    match cri.run(&pod.1, &pod.0, &mounting("signed")).await {
        Err(status) => assert_eq!(status.code(), Code::Unimplemented, "an engine before 28"),
        Ok(container) => {
            let ended = cri.wait_exited(&container).await;
            assert_eq!(ended.exit_code, 0);
            let mounted = ended.mounts[0].image.clone().unwrap();
            assert_eq!(mounted.image_ref, id);
        }
    }
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_image_that_is_not_allowed_gives_way_to_the_built_in_one() {
    let mut guarded = guarded!(Registry::start, |(registry, _)| Settings {
        docker: format!("pause_image = {:?}", registry.reference("pause:1")),
        ..Settings::default()
    });
    let image = ImageBuilder::busybox()
        .marked("pause")
        .config(
            "Cmd",
            json!(["sh", "-c", "trap exit TERM; sleep 1000 & wait"]),
        )
        .build();
    let name = guarded.registry.push(&image, "pause:1").await;
    guarded.demand(&guarded.registry.host(), "matchExact");
    let image_of = |guarded: &Guarded, (_, id): &(PodSpec, String)| {
        guarded.world.inspect(id, "{{.Config.Image}}")
    };
    let pod = guarded.pod("unsigned", "default").await;
    assert_eq!(image_of(&guarded, &pod), "orlop.invalid/pause:1");
    let pulled = guarded.world.cri.image(&name).await.unwrap();
    assert_eq!(pulled, None);
    guarded.sign(image.digest(), &name).await;
    guarded.restart().await;
    let id = guarded.id_of(&image, image.digest());
    for name in ["signed", "judged"] {
        let pod = guarded.pod(name, "default").await;
        assert_eq!(image_of(&guarded, &pod), id);
    }
    // Each sandbox is made by the policy of its time.
    guarded.set("policy.json", &json!({ "default": reject() }).to_string());
    let pod = guarded.pod("rejected", "default").await;
    assert_eq!(image_of(&guarded, &pod), "orlop.invalid/pause:1");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_registries_says_who_judges_and_what_short_names_are() {
    let guarded = guarded!(Registry::start, |(_, scratch)| {
        let path = scratch.path("registries.conf");
        std::fs::write(&path, "").unwrap();
        Settings {
            images: format!("registries_conf = {path:?}\n"),
            ..Settings::default()
        }
    });
    let host = guarded.registry.host();
    let mirror = FaultProxy::before(guarded.registry.address());
    let text = format!(
        "unqualified-search-registries = [\"{host}\"]\nshort-name-mode = \"permissive\"\n\
         [[registry]]\nlocation = \"{host}\"\n[[registry.mirror]]\nlocation = \"{}\"\n\
         [[registry]]\nlocation = \"blocked.invalid\"\nblocked = true\n",
        mirror.host()
    );
    guarded.set("registries.conf", &text);
    let (image, name) = guarded.push("short").await;
    guarded.demand(&host, "matchExact");
    let cri = &guarded.world.cri;
    assert_refused(cri.pull("short:1").await, "has no signature");
    guarded.sign(image.digest(), &name).await;
    let id = cri.pull("short:1").await.expect("pull by a short name");
    let asked = mirror.seen().into_iter().map(|seen| seen.path);
    let asked: Vec<String> = asked.collect();
    assert!(asked.iter().any(|it| it.ends_with("/manifests/1")));
    assert!(!asked.iter().any(|it| it.contains(image.id())), "{asked:?}");
    for name in ["short:1", &name] {
        let known = cri.image(name).await.unwrap().expect("it is there");
        assert_eq!(known.id, id);
    }
    let of_hub = cri.image("docker.io/library/short:1").await.unwrap();
    assert_eq!(of_hub, None, "it is the registry's that was searched");
    let pod = guarded.pod("short", "default").await;
    let created = guarded.create(&pod, "main", &id, "short:1").await;
    created.expect("create");
    guarded.set("policy.json", &json!({ "default": accept() }).to_string());
    let blocked = cri.pull("blocked.invalid/x:1").await.unwrap_err();
    assert_eq!(blocked.code(), Code::PermissionDenied, "{blocked}");
    guarded.world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_judged_in_five_milliseconds_and_without_asking_the_engine() {
    let guarded = guarded!();
    let (image, name) = guarded.push("quick").await;
    guarded.demand(&guarded.registry.host(), "matchExact");
    guarded.sign(image.digest(), &name).await;
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull");
    let pod = guarded.pod("quick", "default").await;
    guarded.tap.take();
    let created = guarded.create(&pod, "counted", &id, &name).await;
    created.expect("create");
    let asked = guarded.tap.take();
    assert_eq!(asked.len(), 1, "{asked:?}");
    // Its signature is verified, and is for another name: a whole call that does nothing but judge.
    let mut took = Vec::new();
    for number in 0..20 {
        let name = guarded.registry.reference(&format!("quick:no-{number}"));
        let begin = Instant::now();
        let refused = guarded.create(&pod, "refused", &id, &name).await;
        took.push(begin.elapsed());
        assert_refused(refused, "quick:1, not for");
    }
    took.sort();
    let limit = Duration::from_millis(if node::is_release() { 5 } else { 20 });
    assert!(took[10] < limit, "{took:?}");
    guarded.world.node.finish().await;
}
