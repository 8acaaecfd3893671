//! Images that are signed by bundles, as kubelets and people meet them.

use orlop_testkit::sigstore::{CodeAuthority, Key, Referrer, TransparencyLog, Wish, statement};
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, Scratch, assert_contains};
use serde_json::json;

use crate::world::world;

const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const USED: u64 = 1_700_000_000;

#[tokio::test]
async fn an_image_of_who_has_logged_in_runs_and_the_policy_s_command_tells_why() {
    let scratch = Scratch::new();
    let policy = scratch.path("policy.json");
    let accept = json!({ "default": [{ "type": "insecureAcceptAnything" }] });
    std::fs::write(&policy, accept.to_string()).expect("write a policy");
    let node = Node::orlop().drop_in(&format!("[images]\nsignature_policy = {policy:?}\n"));
    let world = world!(node);
    let (authority, log) = (CodeAuthority::new("root"), TransparencyLog::new("log"));
    let certificate_log = Key::new();
    let person = authority.certify(&Wish {
        emails: vec!["who@people.example"],
        issuers: [Some("https://issuer.example"); 2],
        valid: (USED - 60, USED + 600),
        log: Some(&certificate_log),
        ..Wish::default()
    });
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("rekor.pub", log.key.pem()),
        ("ct.pub", certificate_log.pem()),
    ] {
        std::fs::write(scratch.path(name), text).expect("write whom to trust");
    }
    let demand = |issuer: &str| {
        let demand = json!({ "default": [{
            "type": "sigstoreSigned",
            "fulcio": {
                "caPath": scratch.path("ca.pem"),
                "oidcIssuer": issuer,
                "subjectEmail": "who@people.example",
                "ctLogPublicKeyPath": scratch.path("ct.pub"),
            },
            "rekorPublicKeyPath": scratch.path("rekor.pub"),
            "signedIdentity": { "type": "matchDigest" },
        }] });
        std::fs::write(&policy, demand.to_string()).expect("write a policy");
    };
    let explained = |name: &str| world.node.client().said(&["image", "policy", name]).1;
    let (registry, cri) = (&world.registry, &world.cri);
    let image = ImageBuilder::busybox().marked("bundled").build();
    let name = registry.push(&image, "bundled:1").await;
    demand("https://issuer.example");
    let refused = cri.pull(&name).await.expect_err("it is not signed");
    assert!(
        refused.message().starts_with("SignatureValidationFailed: "),
        "{refused}"
    );
    assert_contains!(refused.message(), "no bundle is attached to it");
    let statement = statement(image.digest(), None, SIGN);
    let bundle = person.bundle(&statement, Some((&log, USED)));
    let things = [Referrer::bundle(&bundle, SIGN)];
    let list = registry.attach("bundled", image.digest(), &things).await;
    registry
        .list_referrers("bundled", image.digest(), &list)
        .await;
    cri.pull(&name).await.expect("pull what is signed");
    let pod = world.node.pod("run");
    let pod_id = world.run_pod(&pod).await;
    let spec = ContainerSpec::new("main", &name).shell("true");
    let container = cri.run(&pod_id, &pod, &spec).await.expect("run it");
    assert_eq!(cri.wait_exited(&container).await.exit_code, 0);
    let said = explained(&name);
    let wanted = "yes sigstoreSigned: signed by who@people.example without a name with digest";
    assert!(said.contains(wanted), "{said}");
    demand("https://other.example");
    let said = explained(&name);
    let wanted =
        "its certificate was issued for a login at https://issuer.example, not at https://other";
    assert!(said.contains(wanted), "{said}");
    let spec = ContainerSpec::new("again", &name).shell("true");
    let refused = cri.create(&pod_id, &pod, &spec).await;
    let refused = refused.expect_err("the policy is another");
    assert!(refused.message().contains(wanted), "{refused}");
    world.finish().await;
}
