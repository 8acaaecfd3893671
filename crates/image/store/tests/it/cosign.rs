//! What cosign signs, verified: by keys, by certificates of one's own, and by a login. cosign is the second or the
//! third version, whichever `ORLOP_TEST_COSIGN` names; what it asks of Fulcio and Rekor the test answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orlop_image_store::{Image, PolicyFiles, PullRequest, Result};
use orlop_testkit::sigstore::{CodeAuthority, Referrer, Services, Wish};
use orlop_testkit::{
    BuiltImage, ImageBuilder, Layer, Registry, Scratch, machine, skip, skip_unless,
};
use serde_json::{Value, json};

use crate::support::{Place, assert_refused};

const EMAIL: &str = "who@people.example";
const ISSUER: &str = "https://issuer.example";

/// Why a test, or its second half, does not run on an older cosign.
const NEEDS_THIRD: &str = "needs the third version of cosign, which signs bundles";

/// cosign with a key, an image to sign, and a node with a policy.
struct Scene {
    program: PathBuf,
    is_third: bool,
    registry: Registry,
    built: BuiltImage,
    place: Place,
    scratch: Scratch,
}

impl Scene {
    async fn new() -> Self {
        let scratch = Scratch::new();
        scratch.subdir("home");
        let registry = Registry::start();
        let built = ImageBuilder::new()
            .layer(Layer::new().file("f", "x", 0o644))
            .build();
        registry.push(&built, "team/app:1").await;
        let files = PolicyFiles {
            node: Some(scratch.path("policy.json")),
            namespaces: None,
        };
        let mut scene = Self {
            program: machine::cosign().unwrap(),
            is_third: false,
            place: Place::with(|config| config.policies = files).await,
            registry,
            built,
            scratch,
        };
        scene.is_third = scene
            .run(&["sign", "--help"], &[])
            .contains("--signing-config");
        scene
    }

    /// Runs cosign, which must succeed. What it prints is returned.
    fn run(&self, words: &[&str], environment: &[(&str, &Path)]) -> String {
        let mut command = Command::new(&self.program);
        command.args(words).env_clear().stdin(Stdio::null());
        command.env("HOME", self.scratch.path("home"));
        command
            .env("COSIGN_PASSWORD", "")
            .current_dir(self.scratch.path("home"));
        // Nothing is asked of anybody but the test.
        command.env("HTTPS_PROXY", "http://127.0.0.1:1");
        command.envs(environment.iter().copied());
        let output = command.output().expect("start cosign");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{words:?}: {text}");
        text
    }

    /// Files of whom to trust: an authority, a log of signatures and one of certificates.
    fn trust(&self, services: &Services) -> [PathBuf; 3] {
        let state = &services.state;
        [
            self.write("roots.pem", &state.authority.pem()),
            self.write("rekor.pub", &state.log.key.pem()),
            self.write("ct.pub", &state.certificate_log.pem()),
        ]
    }

    /// Signs the image, in bundles or as it was before.
    fn sign(&self, bundles: bool, words: &[&str], environment: &[(&str, &Path)]) {
        let mut all = vec!["sign", "--yes"];
        all.extend(self.manner(bundles));
        all.extend(words);
        let image = self.by_digest();
        all.push(&image);
        self.run(&all, environment);
    }

    /// Says something of the image, in a bundle or as it was before.
    fn attest(&self, bundles: bool, words: &[&str], environment: &[(&str, &Path)]) {
        let predicate = self.write(
            "predicate.json",
            r#"{"buildDefinition":{},"runDetails":{}}"#,
        );
        let mut all = vec!["attest", "--yes", "--type", "https://a.example/said"];
        all.extend(["--predicate", predicate.to_str().unwrap()]);
        all.extend(self.manner(bundles));
        all.extend(words);
        let image = self.by_digest();
        all.push(&image);
        self.run(&all, environment);
    }

    fn manner(&self, bundles: bool) -> &'static [&'static str] {
        match (self.is_third, bundles) {
            (true, true) => &["--use-signing-config=false"],
            (true, false) => &["--use-signing-config=false", "--new-bundle-format=false"],
            (false, true) => &["--new-bundle-format"],
            (false, false) => &[],
        }
    }

    /// Makes a key pair; returns both of its files.
    fn key(&self) -> (String, String) {
        self.run(&["generate-key-pair", "--output-key-prefix", "own"], &[]);
        let path = |name| {
            self.scratch
                .path("home")
                .join(name)
                .to_str()
                .unwrap()
                .to_owned()
        };
        (path("own.key"), path("own.pub"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn by_digest(&self) -> String {
        let name = format!("team/app@{}", self.built.digest());
        self.registry.reference(&name)
    }

    /// Pulls by the policy that asks for this.
    async fn pull(&self, requirement: &Value, identity: &str) -> Result<Image> {
        let mut requirement = requirement.clone();
        requirement["type"] = "sigstoreSigned".into();
        requirement["signedIdentity"] = json!({ "type": identity });
        let policy = json!({ "default": [requirement] }).to_string();
        std::fs::write(self.scratch.path("policy.json"), policy).unwrap();
        let request = PullRequest {
            reference: self.registry.reference("team/app:1"),
            ..PullRequest::default()
        };
        let pulled = self.place.images.pull(request).await;
        if pulled.is_ok() {
            let name = self.registry.reference("team/app:1");
            self.place.images.remove(&name).await.unwrap();
        }
        pulled
    }
}

/// The environment variables that tell cosign which keys and authorities to trust.
fn environment<'a>(roots: &'a Path, rekor: &'a Path, ct: &'a Path) -> [(&'a str, &'a Path); 3] {
    [
        ("SIGSTORE_ROOT_FILE", roots),
        ("SIGSTORE_REKOR_PUBLIC_KEY", rekor),
        ("SIGSTORE_CT_LOG_PUBLIC_KEY_FILE", ct),
    ]
}

#[tokio::test]
async fn a_key_s_signatures_count_as_they_were_and_as_bundles() {
    skip_unless!(machine::cosign());
    let scene = Scene::new().await;
    let (private, public) = scene.key();
    let requirement = json!({ "keyPath": public });
    let words = ["--key", &private, "--tlog-upload=false"];
    assert_refused(
        scene.pull(&requirement, "matchRepository").await,
        "has no signature",
    );
    scene.sign(false, &words, &[]);
    scene.pull(&requirement, "matchRepository").await.unwrap();
    assert_refused(
        scene.pull(&requirement, "matchExact").await,
        "like the signatures of cosign",
    );
    if !scene.is_third {
        skip!("{NEEDS_THIRD}");
    }
    let scene = Scene::new().await;
    let (private, public) = scene.key();
    let requirement = json!({ "keyPath": public });
    scene.sign(true, &["--key", &private, "--tlog-upload=false"], &[]);
    scene.pull(&requirement, "matchDigest").await.unwrap();
    assert_refused(
        scene.pull(&requirement, "matchRepository").await,
        "it contains only a digest and no repository",
    );
    let mut logged = requirement.clone();
    logged["rekorPublicKeyPath"] = requirement["keyPath"].clone();
    assert_refused(
        scene.pull(&logged, "matchDigest").await,
        "it is not in a transparency log",
    );
}

#[tokio::test]
async fn an_attestation_counts_for_its_type_and_its_repository() {
    skip_unless!(machine::cosign());
    for bundles in [false, true] {
        let scene = Scene::new().await;
        let (private, public) = scene.key();
        let words = ["--key", &private, "--tlog-upload=false"];
        scene.attest(bundles, &words, &[]);
        let of_type = |kind: &str| json!({ "keyPath": public, "predicateTypes": [kind] });
        let said = of_type("https://a.example/said");
        scene.pull(&said, "matchRepository").await.unwrap();
        let other = of_type("https://a.example/other");
        assert_refused(
            scene.pull(&other, "matchDigest").await,
            "but has no such attestation",
        );
        let signed = json!({ "keyPath": public });
        let complaint = if bundles {
            "is not a signature"
        } else {
            "it must be signed, but has no signature"
        };
        assert_refused(scene.pull(&signed, "matchDigest").await, complaint);
    }
}

#[tokio::test]
async fn a_certificate_of_one_s_own_counts_as_it_was_and_in_bundles() {
    skip_unless!(machine::cosign());
    let root = CodeAuthority::new("root");
    let between = root.below("between");
    let wish = Wish {
        emails: vec![EMAIL],
        hosts: vec!["build.example"],
        ..Wish::default()
    };
    for bundles in [false, true] {
        let scene = Scene::new().await;
        if bundles && !scene.is_third {
            skip!("{NEEDS_THIRD}");
        }
        let roots = scene.write("roots.pem", &root.pem());
        let chain = scene.write("chain.pem", &(between.pem() + &root.pem()));
        let (private, public) = scene.key();
        let public = std::fs::read_to_string(public).unwrap();
        let certificate = between.certify_pem(&wish, &public).unwrap().swap_remove(0);
        let certificate = scene.write("own.pem", &certificate);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (certificate, chain) = (text(&certificate), text(&chain));
        let words = ["--key", &private, "--certificate", &certificate];
        let words = [
            &words[..],
            &["--certificate-chain", &chain, "--tlog-upload=false"],
        ]
        .concat();
        scene.sign(bundles, &words, &[]);
        let pki = |host: &str| {
            json!({ "pki": {
                "caRootsPath": roots,
                "caIntermediatesPath": scene.scratch.path("chain.pem"),
                "subjectEmail": EMAIL,
                "subjectHostname": host,
            } })
        };
        let identity = if bundles {
            "matchDigest"
        } else {
            "matchRepository"
        };
        scene.pull(&pki("build.example"), identity).await.unwrap();
        assert_refused(
            scene.pull(&pki("other.example"), identity).await,
            "is for who@people.example, not for other.example",
        );
    }
}

#[tokio::test]
async fn a_login_s_signatures_count_as_they_were_and_in_bundles() {
    skip_unless!(machine::cosign());
    for bundles in [false, true] {
        let scene = Scene::new().await;
        if bundles && !scene.is_third {
            skip!("{NEEDS_THIRD}");
        }
        let services = Services::start(EMAIL, ISSUER);
        let [roots, rekor, ct] = scene.trust(&services);
        let environment = environment(&roots, &rekor, &ct);
        let (url, token) = (format!("http://{}", services.address()), services.token());
        let words = [
            "--fulcio-url",
            &url,
            "--rekor-url",
            &url,
            "--identity-token",
            &token,
        ];
        scene.sign(bundles, &words, &environment);
        scene.attest(bundles, &words, &environment);
        let requirement = |email: &str, issuer: &str| {
            json!({
                "fulcio": {
                    "caPath": roots,
                    "oidcIssuer": issuer,
                    "subjectEmail": email,
                    "ctLogPublicKeyPath": ct,
                },
                "rekorPublicKeyPath": rekor,
            })
        };
        let identity = if bundles {
            "matchDigest"
        } else {
            "matchRepository"
        };
        scene
            .pull(&requirement(EMAIL, ISSUER), identity)
            .await
            .unwrap();
        assert_refused(
            scene
                .pull(&requirement("x@people.example", ISSUER), identity)
                .await,
            "is for who@people.example, not for x@people.example",
        );
        assert_refused(
            scene
                .pull(&requirement(EMAIL, "https://x.example"), identity)
                .await,
            "was issued for a login at https://issuer.example, not at https://x.example",
        );
        let mut said = requirement(EMAIL, ISSUER);
        said["predicateTypes"] = json!(["https://a.example/said"]);
        scene.pull(&said, "matchRepository").await.unwrap();
        let mut other = requirement(EMAIL, ISSUER);
        other["rekorPublicKeyPath"] = json!(ct);
        assert_refused(
            scene.pull(&other, identity).await,
            "its log entry is from another log",
        );
    }
}

#[tokio::test]
async fn a_login_s_signature_counts_at_the_time_that_an_authority_states() {
    skip_unless!(machine::cosign());
    let scene = Scene::new().await;
    // Bundles of the second version have no timestamps.
    if !scene.is_third {
        skip!("{NEEDS_THIRD}");
    }
    let services = Services::start(EMAIL, ISSUER);
    let [roots, rekor, ct] = scene.trust(&services);
    let stamps = scene.write("stamps.pem", &services.state.stamps.root.pem());
    let environment = environment(&roots, &rekor, &ct);
    let (url, token) = (format!("http://{}", services.address()), services.token());
    let stamp = format!("{url}/stamp");
    let words = ["--fulcio-url", &url, "--identity-token", &token];
    let words = [
        &words[..],
        &["--timestamp-server-url", &stamp, "--tlog-upload=false"],
    ]
    .concat();
    scene.sign(true, &words, &environment);
    let mut requirement = json!({
        "fulcio": {
            "caPath": roots,
            "oidcIssuer": ISSUER,
            "subjectEmail": EMAIL,
            "ctLogPublicKeyPath": ct,
        },
        "tsaCAPath": stamps,
    });
    scene.pull(&requirement, "matchDigest").await.unwrap();
    requirement["tsaCAPath"] = json!(roots);
    assert_refused(
        scene.pull(&requirement, "matchDigest").await,
        "its timestamp is not accepted: it is not issued by one of the authorities",
    );
}

/// A signature of the manifest's bytes, as of any file, says nothing of an image. cosign takes it for none, either.
#[tokio::test]
async fn a_signature_of_the_manifest_as_a_file_does_not_count() {
    skip_unless!(machine::cosign());
    let scene = Scene::new().await;
    if !scene.is_third {
        skip!("{NEEDS_THIRD}");
    }
    let (private, public) = scene.key();
    let manifest = scene.scratch.path("manifest.json");
    std::fs::write(&manifest, &scene.built.top.bytes).unwrap();
    let bundle = scene.scratch.path("manifest.bundle");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (file, output) = (text(&manifest), text(&bundle));
    let words = [
        "sign-blob",
        "--yes",
        "--key",
        &private,
        "--tlog-upload=false",
    ];
    let words = [
        &words[..],
        &["--use-signing-config=false", "--bundle", &output, &file],
    ]
    .concat();
    scene.run(&words, &[]);
    let made: Value = serde_json::from_slice(&std::fs::read(&bundle).unwrap()).unwrap();
    assert!(made["messageSignature"].is_object(), "{made}");
    let digest = scene.built.digest();
    let referrer = Referrer::bundle(&made, "");
    let list = scene.registry.attach("team/app", digest, &[referrer]).await;
    scene
        .registry
        .list_referrers("team/app", digest, &list)
        .await;
    let image = scene.by_digest();
    let verify = ["verify", "--key", &public, "--insecure-ignore-tlog", &image];
    let refused = Command::new(&scene.program)
        .args(verify)
        .env_clear()
        .env("HOME", scene.scratch.path("home"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && told.contains("does not contain a DSSE envelope"),
        "{told}"
    );
    let requirement = json!({ "keyPath": public });
    assert_refused(
        scene.pull(&requirement, "matchDigest").await,
        "it signs a message instead of an in-toto statement",
    );
    // Beside one that counts it is no obstacle.
    scene.sign(true, &["--key", &private, "--tlog-upload=false"], &[]);
    scene.pull(&requirement, "matchDigest").await.unwrap();
}
