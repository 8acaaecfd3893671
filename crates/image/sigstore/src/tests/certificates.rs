//! Certificates: accepted authorities and identities.

use orlop_testkit::sigstore::{CodeAuthority, Key, Wish};

use super::scene::{BEGIN, DIGEST, EMAIL, END, ISSUER, NOW, Scene, USED, public, verify};
use crate::{Authorities, By, Demand, Pattern, Refusal, Signer, Statement, Subject};

/// Returns the result of a verification with such a certificate.
fn outcome(scene: &Scene, wish: &Wish<'_>) -> Result<By, Refusal> {
    scene.verify(&scene.bundle(&scene.person(wish)))
}

#[track_caller]
fn refused(outcome: Result<By, Refusal>, said: &str) {
    let refused = outcome.expect_err("it must be refused").to_string();
    assert!(refused.contains(said), "{refused}");
}

#[test]
fn who_it_is_for_and_who_vouches_for_that_must_be_so() {
    let scene = Scene::new().knowing_the_authority();
    let wish = || scene.wish();
    for issuers in [[Some(ISSUER), None], [None, Some(ISSUER)]] {
        outcome(&scene, &Wish { issuers, ..wish() }).unwrap();
    }
    for (issuers, said) in [
        (
            [None, None],
            "for a login at an unnamed issuer, not at https://issuer.example",
        ),
        (
            [Some("https://other.example"), None],
            "at https://other.example, not at",
        ),
        (
            [None, Some("https://issuer.example/")],
            "at https://issuer.example/, not at",
        ),
        (
            [Some(ISSUER), Some("https://other.example")],
            "it is not an X.509 certificate",
        ),
        (
            [Some("https://other.example"), Some(ISSUER)],
            "it is not an X.509 certificate",
        ),
        ([Some(""), None], "it is not an X.509 certificate"),
    ] {
        refused(outcome(&scene, &Wish { issuers, ..wish() }), said);
    }
    for (emails, said) in [
        (
            vec![],
            "for a subject without an e-mail address or URI, not for who@people.example",
        ),
        (
            vec!["who@people.example.org"],
            "for who@people.example.org, not for who",
        ),
        (
            vec!["Who@people.example"],
            "for Who@people.example, not for",
        ),
    ] {
        refused(outcome(&scene, &Wish { emails, ..wish() }), said);
    }
    // The same text in another kind of name does not match.
    let elsewhere = Wish {
        emails: vec![],
        hosts: vec![EMAIL],
        addresses: vec![EMAIL],
        ..wish()
    };
    refused(outcome(&scene, &elsewhere), "not for who@people.example");
    outcome(
        &scene,
        &Wish {
            emails: vec!["a@b.example", EMAIL],
            ..wish()
        },
    )
    .unwrap();
    refused(
        outcome(
            &scene,
            &Wish {
                signs_code: false,
                ..wish()
            },
        ),
        "its certificate is not accepted: it is not for code signing",
    );
}

#[test]
fn patterns_are_of_addresses_and_uris() {
    let mut scene = Scene::new().knowing_the_authority();
    let workflow = "https://git.example/org/*/release.yml@refs/tags/v*";
    scene.identity.subject = vec![Subject::Pattern(Pattern::parse(workflow).unwrap())];
    let of = |address| Wish {
        emails: vec![],
        addresses: vec![address],
        ..scene.wish()
    };
    outcome(
        &scene,
        &of("https://git.example/org/app/release.yml@refs/tags/v1.2"),
    )
    .unwrap();
    refused(
        outcome(
            &scene,
            &of("https://git.example/org/app/release.yml@refs/heads/main"),
        ),
        "refs/heads/main, not for https://git.example/org/*/release.yml@refs/tags/v*",
    );
    refused(
        outcome(&scene, &scene.wish()),
        "not for https://git.example",
    );
}

#[test]
fn it_must_have_been_valid_when_it_was_used() {
    let scene = Scene::new().knowing_the_authority();
    for (valid, holds) in [
        ((BEGIN, END), true),
        ((USED, USED), true),
        ((BEGIN, USED - 1), false),
        ((USED + 1, END), false),
        // Valid today, but not at the signing time.
        ((END, NOW as u64 + 100), false),
    ] {
        let outcome = outcome(
            &scene,
            &Wish {
                valid,
                ..scene.wish()
            },
        );
        assert_eq!(outcome.is_ok(), holds, "{valid:?}: {outcome:?}");
    }
    refused(
        outcome(
            &scene,
            &Wish {
                valid: (BEGIN, USED - 1),
                ..scene.wish()
            },
        ),
        "valid from 2023-11-14T22:13:20Z to 2023-11-14T22:14:19Z, and the log's timestamp of the signature is 2023-11-14T22:14:20Z",
    );
}

#[test]
fn it_must_be_by_the_authorities_as_they_were_then() {
    let scene = Scene::new();
    let person = scene.person(&scene.wish());
    let bundle = scene.bundle(&person);
    // The intermediate authority is unknown.
    refused(
        scene.verify(&bundle),
        "not issued by one of the authorities that the policy names",
    );
    // The bundle may contain it.
    let mut with_chain = bundle.clone();
    let material = with_chain["verificationMaterial"].as_object_mut().unwrap();
    let own = material.remove("certificate").unwrap();
    let between = pem_to_base64(&scene.authority.pem());
    material.insert(
        "x509CertificateChain".to_owned(),
        serde_json::json!({ "certificates": [own, { "rawBytes": between }] }),
    );
    scene.verify(&with_chain).unwrap();
    let scene = scene.knowing_the_authority();
    scene.verify(&bundle).unwrap();
    let mut stranger = Scene::new().knowing_the_authority();
    stranger.logs.push(public(&scene.log.key));
    stranger
        .identity
        .certificate_logs
        .push(public(&scene.certificate_log));
    // Both have the same names.
    refused(
        verify(&bundle, &stranger.demand()),
        "its certificate is not accepted: ",
    );
    let other = CodeAuthority::new("root");
    let mut scene = scene;
    scene.identity.authorities = Authorities::from_pem(other.pem().as_bytes()).unwrap();
    verify(&bundle, &scene.demand()).unwrap_err();
    // An authority that has expired, or is not valid yet.
    for valid in [(0, USED - 1), (USED + 1, END)] {
        let old = CodeAuthority::valid("old", valid);
        scene.identity.authorities = Authorities::from_pem(old.pem().as_bytes()).unwrap();
        let mut person = old.certify(&scene.wish());
        person.certificates.truncate(1);
        let bundle = scene.bundle(&person);
        refused(
            scene.verify(&bundle),
            "none of the authorities was valid at 2023-11-14T22:14:20Z",
        );
    }
}

#[test]
fn a_certificate_log_must_have_promised_that_it_has_it() {
    let mut scene = Scene::new().knowing_the_authority();
    outcome(&scene, &scene.wish()).unwrap();
    refused(
        outcome(
            &scene,
            &Wish {
                log: None,
                ..scene.wish()
            },
        ),
        "not in a trusted certificate transparency log: it has no signed certificate timestamp",
    );
    let other = Key::new();
    refused(
        outcome(
            &scene,
            &Wish {
                log: Some(&other),
                ..scene.wish()
            },
        ),
        "not in a trusted certificate transparency log: its signed certificate timestamps are from other logs",
    );
    // A promise for another certificate, inserted by the authority itself.
    let promised = scene.person(&scene.wish());
    let before = crate::Certificate::from_der(&promised.certificates[0]).unwrap();
    let mut forged = before.clone();
    let wish = Wish {
        valid: (BEGIN, END + 1),
        ..scene.wish()
    };
    let person = scene.person(&wish);
    forged.scts = crate::Certificate::from_der(&person.certificates[0])
        .unwrap()
        .scts;
    let issuer = scene
        .identity
        .authorities
        .check(&before, &[], USED as i64)
        .unwrap();
    let logs = scene.identity.certificate_logs.clone();
    crate::sct::check(&before, &issuer, &logs).unwrap();
    let wrong = crate::sct::check(&forged, &issuer, &logs)
        .unwrap_err()
        .to_string();
    assert!(
        wrong.ends_with("its signed certificate timestamp is wrong"),
        "{wrong}"
    );
    crate::sct::check(&before, &[0; 32], &logs).unwrap_err();
    let list = before.scts.clone().unwrap();
    for end in 0..list.len() {
        forged.scts = Some(list[..end].to_vec());
        crate::sct::check(&forged, &issuer, &logs).unwrap_err();
    }
    // Without a policy about logs, no promise is needed.
    scene.identity.certificate_logs.clear();
    outcome(
        &scene,
        &Wish {
            log: None,
            ..scene.wish()
        },
    )
    .unwrap();
}

#[test]
fn without_a_log_a_certificate_must_be_valid_now() {
    let scene = Scene::new().knowing_the_authority();
    let mut identity = scene.identity.clone();
    identity.issuer = None;
    identity.certificate_logs.clear();
    identity.subject = vec![Subject::Host("ci.build.example".to_owned())];
    let demand = |now| Demand {
        stampers: None,
        signer: Signer::Identity(&identity),
        logs: None,
        now,
    };
    let said = orlop_testkit::sigstore::statement(DIGEST, None, Statement::COSIGN_SIGN);
    let sign = |wish: &Wish<'_>| scene.person(wish).bundle(&said, None);
    let wish = Wish {
        valid: (BEGIN, END),
        hosts: vec!["ci.build.example"],
        ..Wish::default()
    };
    verify(&sign(&wish), &demand(USED as i64)).unwrap();
    refused(
        verify(&sign(&wish), &demand(NOW)),
        "and now is 2027-01-15T08:00:00Z",
    );
    // A certificate without usages is accepted; one with other usages is not.
    verify(
        &sign(&Wish {
            signs_code: false,
            ..wish.clone()
        }),
        &demand(USED as i64),
    )
    .unwrap();
    let server = Wish {
        signs_code: false,
        serves: true,
        ..wish.clone()
    };
    refused(
        verify(&sign(&server), &demand(USED as i64)),
        "its certificate is not accepted: it is not for code signing",
    );
    let both = Wish {
        serves: true,
        ..wish.clone()
    };
    verify(&sign(&both), &demand(USED as i64)).unwrap();
    let star = Wish {
        hosts: vec!["*.build.example"],
        ..wish.clone()
    };
    verify(&sign(&star), &demand(USED as i64)).unwrap();
    let other = Wish {
        hosts: vec!["ci.build.example.org"],
        emails: vec![EMAIL],
        ..wish.clone()
    };
    refused(
        verify(&sign(&other), &demand(USED as i64)),
        "for who@people.example, not for ci.build.example",
    );
    // All requirements must match.
    identity.subject.push(Subject::Email(EMAIL.to_owned()));
    let demand = Demand {
        signer: Signer::Identity(&identity),
        logs: None,
        stampers: None,
        now: USED as i64,
    };
    refused(verify(&sign(&wish), &demand), "not for who@people.example");
    verify(
        &sign(&Wish {
            emails: vec![EMAIL],
            ..wish
        }),
        &demand,
    )
    .unwrap();
}

#[test]
fn authorities_that_cannot_be_read_are_told() {
    let good = CodeAuthority::new("root").pem();
    let scene = Scene::new();
    let signer = scene.person(&scene.wish()).certificate_pem();
    for (pem, said) in [
        (String::new(), "it has no \"CERTIFICATE\" block"),
        (Key::new().pem(), "it has no \"CERTIFICATE\" block"),
        (good.replace("MII", "!!!"), "it is not PEM"),
        (good.repeat(65), "more than 64 certificates"),
        (good.replacen("MII", "AAA", 1), "cannot be used"),
        (signer, "CA:TRUE"),
    ] {
        let error = Authorities::from_pem(pem.as_bytes()).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    assert!(Authorities::from_pem(good.repeat(3).as_bytes()).is_ok());
}

fn pem_to_base64(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with('-')).collect()
}
