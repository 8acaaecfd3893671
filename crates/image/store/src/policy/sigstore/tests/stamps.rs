//! Logins whose signatures an authority for timestamps has seen.

use orlop_testkit::sigstore::{StampAuthority, stamped};

use super::*;

#[test]
fn a_timestamp_takes_the_place_of_a_log_where_the_policy_says_so() {
    let scene = Scene::new();
    let authority = StampAuthority::new();
    let file = scene.write("tsa.pem", &authority.root.pem());
    let unnoted = scene.person().bundle(&scene.statement(None, SIGN), None);
    let at = |at| stamped(unnoted.clone(), |it| authority.stamp(it, at)).to_string();
    let noted = scene.fulcio("matchDigest");
    let alone = without(&noted, "rekorPublicKeyPath");
    let (mut by_file, mut inline) = (alone.clone(), alone.clone());
    by_file["tsaCAPath"] = json!(file);
    inline["tsaCAData"] = BASE64_STANDARD.encode(authority.root.pem()).into();
    for requirement in [&by_file, &inline] {
        let reason = scene.judge_bundles(requirement, vec![at(USED)]).unwrap();
        assert!(
            reason.starts_with(&format!("signed by {EMAIL}")),
            "{reason}"
        );
        refused(
            scene.judge_bundles(requirement, vec![at(BEGIN + 601)]),
            "and the timestamp of the signature is 2023-11-14T22:23:21Z",
        );
        refused(
            scene.judge_bundles(requirement, vec![unnoted.to_string()]),
            "nothing proves that it was signed while its certificate was valid",
        );
    }
    // Who asks for a log as well has it asked for.
    let mut both = noted;
    both["tsaCAPath"] = json!(file);
    refused(
        scene.judge_bundles(&both, vec![at(USED)]),
        "it is not in a transparency log",
    );
    let other = StampAuthority::new();
    scene.write("tsa.pem", &other.root.pem());
    refused(
        scene.judge_bundles(&by_file, vec![at(USED)]),
        "its timestamp is not accepted: ",
    );
    scene.write("tsa.pem", "x");
    let broken = scene.judge_bundles(&by_file, vec![at(USED)]).unwrap_err();
    orlop_testkit::assert_contains!(broken, "tsa.pem: it has no \"CERTIFICATE\"");
}
