//! Policies that can't be meant so, and files that can't be used.

use serde_json::{Value, json};

use super::{EMAIL, SIGN, Scene, refused, without};

#[test]
fn combinations_and_fields_that_mean_nothing_are_told_with_their_place() {
    let scene = Scene::new();
    let fulcio = scene.fulcio("matchDigest");
    let pki = json!({
        "type": "sigstoreSigned",
        "pki": { "caRootsPath": "/ca.pem", "subjectEmail": EMAIL },
    });
    let with = |base: &Value, field: &str, value: Value| {
        let mut base = base.clone();
        base[field] = value;
        base
    };
    let within = |base: &Value, part: &str, field: &str, value: Value| {
        let mut base = base.clone();
        if value.is_null() {
            base[part].as_object_mut().unwrap().remove(field);
        } else {
            base[part][field] = value;
        }
        base
    };
    for (requirement, complaint) in [
        (
            with(&fulcio, "keyPath", json!("/k")),
            "default[0]: needs exactly one of \"keyPath\"",
        ),
        (
            with(&fulcio, "pki", pki["pki"].clone()),
            "default[0]: needs exactly one of \"keyPath\"",
        ),
        (
            without(&fulcio, "rekorPublicKeyPath"),
            "default[0]: \"fulcio\" needs one of \"rekor",
        ),
        (
            with(&pki, "rekorPublicKeyPath", json!("/r")),
            "default[0]: \"pki\" cannot be used together",
        ),
        (
            with(&fulcio, "rekorPublicKeyDatas", json!(["x"])),
            "default[0]: needs exactly one of \"rekorPublicKeyPath\"",
        ),
        (
            with(&fulcio, "rekorPublicKeyPath", json!("r")),
            "default[0].rekorPublicKeyPath: \"r\" is not an absolute path",
        ),
        (
            with(&pki, "tsaCAPath", json!("/t")),
            "default[0]: \"tsaCA…\" can only be used together with \"fulcio\"",
        ),
        (
            json!({ "type": "sigstoreSigned", "keyPath": "/k", "tsaCAPath": "/t" }),
            "default[0]: \"tsaCA…\" can only be used together with \"fulcio\"",
        ),
        (
            with(&fulcio, "tsaCAPath", json!("t")),
            "default[0].tsaCAPath: \"t\" is not an absolute path",
        ),
        (
            with(&fulcio, "tsaCAData", json!("eA==")),
            "default[0].tsaCAData: it has no \"CERTIFICATE\" block",
        ),
        (
            with(
                &with(&fulcio, "tsaCAPath", json!("/t")),
                "tsaCAData",
                json!("eA=="),
            ),
            "default[0]: needs exactly one of \"tsaCAPath\" and \"tsaCAData\"",
        ),
        (
            within(&fulcio, "fulcio", "caPath", Value::Null),
            "default[0].fulcio: needs exactly one of \"caPath\"",
        ),
        (
            within(&fulcio, "fulcio", "caData", json!("x")),
            "default[0].fulcio: needs exactly one of \"caPath\"",
        ),
        (
            within(&fulcio, "fulcio", "oidcIssuer", Value::Null),
            "\"oidcIssuer\" is missing",
        ),
        (
            within(&fulcio, "fulcio", "oidcIssuer", json!("")),
            "fulcio.oidcIssuer: must have between",
        ),
        (
            within(&fulcio, "fulcio", "subjectEmail", Value::Null),
            "default[0].fulcio: needs exactly one of \"subjectEmail\" and",
        ),
        (
            within(&fulcio, "fulcio", "subjectPattern", json!("x")),
            "default[0].fulcio: needs exactly one of \"subjectEmail\" and",
        ),
        (
            within(
                &within(&fulcio, "fulcio", "subjectEmail", Value::Null),
                "fulcio",
                "subjectPattern",
                json!("a**b"),
            ),
            "default[0].fulcio.subjectPattern: \"**\" is allowed only at its end",
        ),
        (
            within(&fulcio, "fulcio", "ctLogPublicKeyData", json!("x")),
            "default[0].fulcio: needs exactly one of \"ctLogPublicKeyPath\"",
        ),
        (
            within(&fulcio, "fulcio", "x", json!(1)),
            "default[0].fulcio.x: unknown field",
        ),
        (
            within(&pki, "pki", "caRootsPath", Value::Null),
            "default[0].pki: needs exactly one of",
        ),
        (
            within(&pki, "pki", "caRootsData", json!("")),
            "default[0].pki: needs exactly one of",
        ),
        (
            within(
                &within(&pki, "pki", "caRootsPath", Value::Null),
                "pki",
                "caRootsData",
                json!("AAAA"),
            ),
            "default[0].pki.caRootsData: it has no \"CERTIFICATE\" block",
        ),
        (
            within(&pki, "pki", "subjectEmail", Value::Null),
            "default[0].pki: needs \"subjectEmail\"",
        ),
        (
            within(&pki, "pki", "subjectHostname", json!("no host")),
            "default[0].pki.subjectHostname: \"no host\" is not a host name",
        ),
        (
            within(&pki, "pki", "oidcIssuer", json!("x")),
            "default[0].pki.oidcIssuer: unknown field",
        ),
        (
            with(&pki, "predicateTypes", json!([])),
            "default[0].predicateTypes: must not be empty",
        ),
        (
            with(&pki, "predicateTypes", json!([1])),
            "default[0].predicateTypes[0]: must be a string",
        ),
        (
            with(&pki, "predicateTypes", json!(vec!["x"; 17])),
            "more than 16 types",
        ),
        (
            with(&fulcio, "fulcio", json!(1)),
            "default[0].fulcio: must be an object",
        ),
    ] {
        let outcome = scene.judge_bundles(&requirement, vec![]);
        refused(outcome, complaint);
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let scene = Scene::new();
    let person = scene.person();
    let bundle = scene.bundle(&person, &scene.statement(None, SIGN));
    let requirement = scene.fulcio("matchDigest");
    for name in ["ca.pem", "rekor.pub", "ct.pub"] {
        let good = std::fs::read_to_string(scene.path(name)).unwrap();
        for (text, said) in [("", "it has no \""), (&"x".repeat(2 << 20), "larger than")] {
            scene.write(name, text);
            let path = scene.path(name).display().to_string();
            let outcome = scene
                .judge_bundles(&requirement, vec![bundle.clone()])
                .unwrap_err();
            assert!(
                outcome.starts_with("signature policy /p.json: default[0]: the "),
                "{outcome}"
            );
            orlop_testkit::assert_contains!(outcome, &path, said);
        }
        std::fs::remove_file(scene.path(name)).unwrap();
        scene
            .judge_bundles(&requirement, vec![bundle.clone()])
            .unwrap_err();
        scene.write(name, &good);
        scene
            .judge_bundles(&requirement, vec![bundle.clone()])
            .unwrap();
    }
}
