//! Bundles that are attached to images, with a real registry: found by the API for that and without it, and judged.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use orlop_image_store::{Error, Image, PolicyFiles, PolicyFor, PullRequest, Reference, Result};
use orlop_testkit::sigstore::{
    CodeAuthority, Key, Person, Referrer, TransparencyLog, Wish, statement,
};
use orlop_testkit::{
    BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule, Scratch, assert_contains,
};
use serde_json::{Value, json};

use crate::support::{Place, assert_refused};

const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const ISSUER: &str = "https://issuer.example";
const EMAIL: &str = "who@people.example";
const USED: u64 = 1_700_000_000;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A registry with an image, somebody who signs it, and a node with a policy.
struct Scene {
    registry: Registry,
    proxy: FaultProxy,
    built: BuiltImage,
    person: Person,
    log: TransparencyLog,
    policies: PathBuf,
    place: Place,
    _scratch: Scratch,
}

impl Scene {
    async fn new() -> Self {
        Self::of(ImageBuilder::new()).await
    }

    async fn of(image: ImageBuilder) -> Self {
        let scratch = Scratch::new();
        let policies = scratch.subdir("policies");
        let registry = Registry::start();
        let built = image.layer(Layer::new().file("f", "x", 0o644)).build();
        registry.push(&built, "team/app:1").await;
        let (authority, log) = (CodeAuthority::new("root"), TransparencyLog::new("log"));
        let certificate_log = Key::new();
        let person = authority.certify(&Wish {
            emails: vec![EMAIL],
            issuers: [Some(ISSUER); 2],
            log: Some(&certificate_log),
            valid: (USED - 60, USED + 600),
            ..Wish::default()
        });
        for (name, text) in [
            ("ca.pem", authority.pem()),
            ("rekor.pub", log.key.pem()),
            ("ct.pub", certificate_log.pem()),
        ] {
            std::fs::write(policies.join(name), text).unwrap();
        }
        let files = PolicyFiles {
            node: Some(policies.join("policy.json")),
            namespaces: None,
        };
        let scene = Self {
            place: Place::with(|config| config.policies = files).await,
            proxy: FaultProxy::before(registry.address()),
            person,
            log,
            registry,
            built,
            policies,
            _scratch: scratch,
        };
        scene.set(&scene.by_login());
        scene
    }

    fn set(&self, requirement: &Value) {
        let text = json!({ "default": [requirement] }).to_string();
        std::fs::write(self.policies.join("policy.json"), text).unwrap();
    }

    fn by_login(&self) -> Value {
        json!({
            "type": "sigstoreSigned",
            "fulcio": {
                "caPath": self.policies.join("ca.pem"),
                "oidcIssuer": ISSUER,
                "subjectPattern": "who@*",
                "ctLogPublicKeyPath": self.policies.join("ct.pub"),
            },
            "rekorPublicKeyPath": self.policies.join("rekor.pub"),
            "signedIdentity": { "type": "matchDigest" },
        })
    }

    fn accept(&self) {
        self.set(&json!({ "type": "insecureAcceptAnything" }));
    }

    /// A bundle of what has this digest, as cosign attaches it.
    fn bundle(&self, digest: &str, kind: &str) -> Referrer {
        let statement = statement(digest, None, kind);
        let bundle = self.person.bundle(&statement, Some((&self.log, USED)));
        Referrer::bundle(&bundle, kind)
    }

    /// Attaches things to what has this digest, for who looks for them at the tag.
    async fn attach(&self, digest: &str, things: &[Referrer]) -> Value {
        let list = self.registry.attach("team/app", digest, things).await;
        self.registry
            .list_referrers("team/app", digest, &list)
            .await;
        list
    }

    fn name(&self) -> String {
        self.proxy.reference("team/app:1")
    }

    async fn pull(&self) -> Result<Image> {
        let request = PullRequest {
            reference: self.name(),
            policy: PolicyFor::Namespace(String::new()),
            ..PullRequest::default()
        };
        self.place.images.pull(request).await
    }

    async fn admit(&self, image: &Image) -> Result<()> {
        let name: Reference = self.name().parse().unwrap();
        self.place.images.admit(&image.id, Some(&name), "").await
    }

    /// What the API answers of this manifest.
    fn serve(&self, digest: &str, page: &Value) {
        let answer = Fault::content(INDEX, page.to_string());
        self.proxy
            .rule(Rule::on(&format!("referrers/{digest}"), answer));
    }
}

#[tokio::test]
async fn a_bundle_is_found_at_the_tag_and_judged_later_without_the_registry() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    assert_refused(scene.pull().await, "and no bundle is attached to it");
    assert_eq!(scene.place.layer_dirs(), 0);
    scene.attach(digest, &[scene.bundle(digest, SIGN)]).await;
    let image = scene.pull().await.unwrap();
    scene.proxy.leave();
    scene.admit(&image).await.unwrap();
    // The policy of another day.
    let mut other = scene.by_login();
    other["fulcio"]["subjectPattern"] = "other@*".into();
    scene.set(&other);
    assert_refused(
        scene.admit(&image).await,
        "is for who@people.example, not for other@*",
    );
    let mut provenance = scene.by_login();
    provenance["predicateTypes"] = json!(["https://slsa.dev/provenance/v1"]);
    scene.set(&provenance);
    assert_refused(
        scene.admit(&image).await,
        "an attestation of the type https://slsa.dev",
    );
}

#[tokio::test]
async fn a_bundle_is_found_by_the_api_over_all_pages_and_the_tag_does_not_count_then() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let others = [
        scene.bundle(digest, "https://slsa.dev/provenance/v1"),
        Referrer {
            artifact_type: "application/spdx+json".to_owned(),
            layer: b"{}".to_vec(),
            annotations: json!({}),
        },
    ];
    let list = scene.registry.attach("team/app", digest, &others).await;
    let good = [scene.bundle(digest, SIGN)];
    let rest = scene.attach(digest, &good).await;
    let next = format!("</v2/team/app/referrers/{digest}?page=2>; rel=\"next\"");
    let first = Fault::Reply {
        status: 200,
        headers: vec![("content-type".into(), INDEX.into()), ("link".into(), next)],
        body: list.to_string().into_bytes(),
    };
    scene
        .proxy
        .rule(Rule::on("page=2", Fault::content(INDEX, rest.to_string())));
    scene
        .proxy
        .rule(Rule::on(&format!("referrers/{digest}"), first));
    scene.pull().await.unwrap();
    let asked_for = |digest: &Value| {
        let path = format!("/manifests/{}", digest.as_str().unwrap());
        scene.proxy.count(http::Method::GET, &path)
    };
    assert_eq!(asked_for(&list["manifests"][0]["digest"]), 1);
    assert_eq!(
        asked_for(&list["manifests"][1]["digest"]),
        0,
        "it is no bundle"
    );
    scene.place.images.remove(&scene.name()).await.unwrap();
    scene.proxy.heal();
    scene.serve(digest, &json!({ "manifests": [] }));
    assert_refused(scene.pull().await, "and no bundle is attached to it");
}

#[tokio::test]
async fn a_bundle_of_the_index_is_one_of_the_image() {
    let scene = Scene::of(ImageBuilder::new().index()).await;
    let digest = scene.built.digest();
    scene.attach(digest, &[scene.bundle(digest, SIGN)]).await;
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
    let other = Scene::of(ImageBuilder::new().index()).await;
    let own = &other.built.manifests.last().unwrap().digest;
    other.attach(own, &[other.bundle(own, SIGN)]).await;
    other.pull().await.unwrap();
}

#[tokio::test]
async fn signatures_that_are_attached_and_in_no_bundle_count_too() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let signed = scene
        .person
        .sign_image(digest, "x.example/y", Some((&scene.log, USED)));
    scene
        .registry
        .push_signatures("team/app", digest, &[signed])
        .await;
    scene.pull().await.unwrap();
    scene.place.images.remove(&scene.name()).await.unwrap();
    // The same manifest, found in the list alone.
    let tag = format!("{}.sig", digest.replacen(':', "-", 1));
    let address = format!(
        "http://{}/v2/team/app/manifests/{tag}",
        scene.registry.host()
    );
    let answer = head(&address).await;
    scene.proxy.rule(Rule::on(".sig", Fault::status(404)));
    assert_refused(scene.pull().await, "and no bundle is attached to it");
    let kind = "application/vnd.dev.cosign.artifact.sig.v1+json";
    scene.serve(
        digest,
        &json!({ "manifests": [{ "digest": answer, "artifactType": kind }] }),
    );
    scene.pull().await.unwrap();
}

/// The digest of a manifest.
pub(crate) async fn head(address: &str) -> String {
    let url: http::Uri = address.parse().unwrap();
    let request = http::Request::get(url.path())
        .header("accept", "application/vnd.oci.image.manifest.v1+json")
        .body(http_body_util::Full::default())
        .unwrap();
    let at = url.authority().unwrap().as_str().parse().unwrap();
    let answer = orlop_testkit::http::send(at, request).await.unwrap();
    answer.headers["docker-content-digest"]
        .to_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn what_is_attached_and_no_good_does_not_stand_in_the_way_of_what_is() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let garbage = |layer: &[u8]| Referrer {
        layer: layer.to_vec(),
        ..scene.bundle(digest, SIGN)
    };
    let mut things = vec![
        garbage(b"{"),
        garbage(b"\xff\xfe"),
        garbage(&vec![b'['; 100_000]),
        garbage(&vec![b' '; (1 << 20) + 1]),
        scene.bundle(BuiltImage::wasm_artifact(b"\0asm").digest(), SIGN),
    ];
    scene.attach(digest, &things).await;
    let error = scene.pull().await.unwrap_err().to_string();
    assert_contains!(error, "none of its 3 signatures is accepted");
    things.push(scene.bundle(digest, SIGN));
    scene.attach(digest, &things).await;
    scene.pull().await.unwrap();
    scene.place.images.remove(&scene.name()).await.unwrap();
    // A manifest that is not there, and more of them than are looked at: signatures go first.
    let mut list = scene.attach(digest, &things[5..]).await;
    let entries = list["manifests"].as_array_mut().unwrap();
    for number in 0..200 {
        let digest = orlop_testkit::image::digest(format!("{number}").as_bytes());
        entries.insert(
            0,
            json!({
                "digest": digest,
                "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "annotations": { "dev.sigstore.bundle.predicateType": "https://spdx.dev/Document" },
            }),
        );
    }
    scene.serve(digest, &list);
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn a_list_that_is_too_long_or_malformed_is_refused_where_it_is_needed() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let many = |count: usize| {
        let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
        let one = json!({ "digest": digest, "artifactType": kind });
        json!({ "manifests": vec![one; count] })
    };
    let endless = Fault::Reply {
        status: 200,
        headers: vec![("link".into(), "<?again>; rel=next".into())],
        body: many(0).to_string().into_bytes(),
    };
    for (fault, said) in [
        (
            Fault::content(INDEX, many(1025).to_string()),
            "1024 artifacts of one type",
        ),
        (
            Fault::content(INDEX, vec![b' '; 9 << 20]),
            "exceeds the limit of",
        ),
        (Fault::content(INDEX, "[[[["), "artifacts attached to"),
        (
            Fault::content(INDEX, r#"{"manifests":[{"digest":"x","artifactType":""}]}"#),
            "digest",
        ),
        (endless, "exceeds the limit of 8 pages"),
        (Fault::status(403), "403"),
        (Fault::status(500), "500"),
    ] {
        scene.proxy.heal();
        scene.proxy.rule(Rule::on("/referrers/", fault));
        let error = scene.pull().await.unwrap_err();
        assert!(!matches!(error, Error::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        // Who does not need it is not held up.
        scene.accept();
        scene.pull().await.unwrap();
        scene.place.images.remove(&scene.name()).await.unwrap();
        scene.set(&scene.by_login());
    }
    // Where there are signatures elsewhere, these decide.
    let signed = scene
        .person
        .sign_image(digest, "x.example/y", Some((&scene.log, USED)));
    scene
        .registry
        .push_signatures("team/app", digest, &[signed])
        .await;
    scene.pull().await.unwrap();
    scene.place.images.remove(&scene.name()).await.unwrap();
    let mut other = scene.by_login();
    other["fulcio"]["oidcIssuer"] = "https://other.example".into();
    scene.set(&other);
    assert_refused(scene.pull().await, "more signatures may exist, but: ");
}

#[tokio::test]
async fn the_tag_counts_where_there_is_no_api_which_registries_say_in_many_ways() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    scene.attach(digest, &[scene.bundle(digest, SIGN)]).await;
    for status in [404, 400, 405, 406] {
        scene.proxy.heal();
        scene
            .proxy
            .rule(Rule::on("/referrers/", Fault::status(status)));
        scene.pull().await.unwrap();
        scene.place.images.remove(&scene.name()).await.unwrap();
    }
}

#[tokio::test]
async fn where_there_is_the_api_nobody_waits_for_the_tag() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let things = [scene.bundle(digest, SIGN)];
    let list = scene.registry.attach("team/app", digest, &things).await;
    scene.serve(digest, &list);
    let tag = format!("manifests/{}", digest.replacen(':', "-", 1));
    scene.proxy.rule(Rule::on(".sig", Fault::status(404)));
    scene.proxy.rule(Rule::on(&tag, Fault::stall(0)));
    let start = Instant::now();
    scene.pull().await.unwrap();
    // Nothing comes from there before 10 seconds are over.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn an_attestation_is_asked_for_by_its_type() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let kind = "https://slsa.dev/provenance/v1";
    let mut requirement = scene.by_login();
    requirement["predicateTypes"] = json!([kind]);
    scene.set(&requirement);
    scene.attach(digest, &[scene.bundle(digest, SIGN)]).await;
    assert_refused(
        scene.pull().await,
        "an attestation of the type https://slsa.dev",
    );
    scene
        .attach(
            digest,
            &[scene.bundle(digest, SIGN), scene.bundle(digest, kind)],
        )
        .await;
    scene.pull().await.unwrap();
}

/// Each answer comes so late: what takes longer than a few of these takes more of them.
const LATE: Duration = Duration::from_millis(400);

/// How long a pull takes whose every answer is late, counted in answers that it waits for one after the other.
async fn turns(scene: &Scene) -> u32 {
    let late = Fault::Stall {
        after: 0,
        hold: LATE,
    };
    scene.proxy.rule(Rule::on("/v2/", late));
    let start = Instant::now();
    scene.pull().await.unwrap();
    scene.proxy.heal();
    (start.elapsed().as_millis() / LATE.as_millis()) as u32
}

#[tokio::test]
async fn a_signed_image_takes_hardly_more_turns_than_one_that_is_not() {
    for (image, more) in [
        // A list, a manifest and a bundle, beside the configuration, which is fetched anyway.
        (ImageBuilder::new(), 2),
        // The list comes with the platform's manifest.
        (ImageBuilder::new().index(), 1),
    ] {
        let scene = Scene::of(image).await;
        let digest = scene.built.digest();
        scene.accept();
        let plain = turns(&scene).await;
        scene.place.images.remove(&scene.name()).await.unwrap();
        scene.set(&scene.by_login());
        scene.attach(digest, &[scene.bundle(digest, SIGN)]).await;
        let signed = turns(&scene).await;
        assert!(
            signed <= plain + more,
            "{signed} turns, {plain} without a signature"
        );
        eprintln!("{signed} turns, {plain} without a signature");
    }
}
