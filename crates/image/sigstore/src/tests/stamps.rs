//! Timestamps by authorities.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]

use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_testkit::sigstore::{StampAuthority, StampWish, StamperWish, stamped};
use orlop_testkit::{Scratch, machine, skip_unless};
use serde_json::Value;

use super::scene::{BEGIN, DIGEST, END, Scene, USED, verify};
use crate::timestamp::check;
use crate::{Authorities, By, Demand, Refusal, Signer, Statement};

fn trusting(authority: &StampAuthority) -> Authorities {
    Authorities::from_pem(authority.root.pem().as_bytes()).unwrap()
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn told<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> String {
    outcome.unwrap_err().to_string()
}

/// Returns the reason why a timestamp is refused, without the common prefix.
fn refused(authority: &StampAuthority, wish: &StampWish<'_>) -> String {
    told(check(
        &authority.make(wish),
        b"message",
        &trusting(authority),
    ))
}

#[test]
fn a_timestamp_counts_for_what_it_is_of_and_by_whom_it_is() {
    let authority = StampAuthority::new();
    let stamp = authority.stamp(b"message", USED);
    let trusted = trusting(&authority);
    assert_eq!(check(&stamp, b"message", &trusted), Ok(USED as i64));
    let mut exact = authority.wish(b"message", USED);
    exact.fraction = ".25";
    let exact = authority.make(&exact);
    assert_eq!(check(&exact, b"message", &trusted), Ok(USED as i64));
    let of_other = told(check(&stamp, b"other", &trusted));
    assert_eq!(
        of_other,
        "its timestamp is not accepted: it is for another signature"
    );
    let by_other = told(check(&stamp, b"message", &trusting(&StampAuthority::new())));
    assert!(
        by_other.ends_with("its issuer's signature is wrong"),
        "{by_other}"
    );
    // A timestamp may omit its certificate if that is known.
    let mut bare = authority.wish(b"message", USED);
    bare.certificates = Vec::new();
    let bare = authority.make(&bare);
    let missing = told(check(&bare, b"message", &trusted));
    assert!(
        missing.ends_with("the certificate that it names is missing"),
        "{missing}"
    );
    let own = pem(authority.own());
    let known = trusted.with_intermediates(own.as_bytes()).unwrap();
    assert_eq!(check(&bare, b"message", &known), Ok(USED as i64));
}

#[test]
fn what_is_wrong_with_a_timestamp_refuses_it() {
    let authority = StampAuthority::new();
    let other = StampAuthority::new();
    let good = authority.wish(b"message", USED);
    for (wish, complaint) in [
        (
            StampWish {
                status: 2,
                ..good.clone()
            },
            "the authority rejected the request for it",
        ),
        (
            StampWish {
                digest: Some(b"other"),
                ..good.clone()
            },
            "its content does not match the signed digest",
        ),
        (
            StampWish {
                maker: Some(other.own()),
                ..good.clone()
            },
            "the certificate that it names is missing",
        ),
        (
            StampWish {
                maker: Some(other.own()),
                certificates: vec![other.own()],
                ..good.clone()
            },
            "it is not signed with the key of its certificate",
        ),
        (
            StampWish {
                fraction: ".",
                ..good.clone()
            },
            "it is malformed",
        ),
        (
            StampWish {
                fraction: "x",
                ..good.clone()
            },
            "it is malformed",
        ),
        // Extensions, which are not supported.
        (
            StampWish {
                more: &[0xa1, 0],
                ..good.clone()
            },
            "it is malformed",
        ),
        (
            StampWish {
                certificates: vec![authority.own(); 9],
                ..good.clone()
            },
            "it is malformed",
        ),
    ] {
        let told = refused(&authority, &wish);
        assert!(told.ends_with(complaint), "{told}");
    }
    let good = authority.make(&good);
    let trusted = trusting(&authority);
    for at in 0..good.len() {
        assert!(check(&good[..at], b"message", &trusted).is_err());
        let mut changed = good.clone();
        changed[at] ^= 1;
        // Unsigned parts only affect names, or the kind of success.
        if let Ok(moment) = check(&changed, b"message", &trusted) {
            assert_eq!(moment, USED as i64, "at {at}");
        }
    }
    let longer = [&good[..], &[0]].concat();
    assert!(check(&longer, b"message", &trusted).is_err());
    assert!(check(&vec![0x30; 40_000], b"message", &trusted).is_err());
}

#[test]
fn only_a_certificate_for_timestamps_makes_them_while_it_is_valid() {
    let with = |change: &dyn Fn(&mut StamperWish)| {
        let mut wish = StamperWish::default();
        change(&mut wish);
        let authority = StampAuthority::with(&wish);
        let stamp = authority.stamp(b"message", USED);
        check(&stamp, b"message", &trusting(&authority))
    };
    with(&|it| it.valid = (BEGIN, END)).unwrap();
    for (outcome, complaint) in [
        (with(&|it| it.is_critical = false), "for timestamps only"),
        (with(&|it| it.usages = vec![3]), "for timestamps only"),
        (with(&|it| it.usages = vec![8, 3]), "for timestamps only"),
        (
            with(&|it| it.valid = (BEGIN, USED - 1)),
            "but the timestamp is of 2023-11-14T22:14:20Z",
        ),
        (
            with(&|it| it.valid = (USED + 1, END)),
            "but the timestamp is of 2023-11-14T22:14:20Z",
        ),
    ] {
        let told = told(outcome);
        assert!(told.ends_with(complaint), "{told}");
    }
}

/// A stamped bundle, logged without a time or not at all.
#[test]
fn a_login_s_certificate_counts_at_the_time_of_its_stamp() {
    let scene = Scene::new().knowing_the_authority();
    let authority = StampAuthority::new();
    let trusted = trusting(&authority);
    let person = scene.person(&scene.wish());
    let mut timeless = scene.bundle(&person);
    let entry = &mut timeless["verificationMaterial"]["tlogEntries"][0];
    entry.as_object_mut().unwrap().remove("inclusionPromise");
    entry.as_object_mut().unwrap().remove("integratedTime");
    let statement = orlop_testkit::sigstore::statement(DIGEST, None, Statement::COSIGN_SIGN);
    let unlogged = person.bundle(&statement, None);
    let noted = Demand {
        stampers: Some(&trusted),
        ..scene.demand()
    };
    let alone = Demand {
        logs: None,
        ..noted
    };
    let at = |bundle: &Value, at: u64| stamped(bundle.clone(), |it| authority.stamp(it, at));
    for moment in [BEGIN, USED, END] {
        assert!(matches!(
            verify(&at(&timeless, moment), &noted),
            Ok(By::Identity(_))
        ));
        assert!(matches!(
            verify(&at(&unlogged, moment), &alone),
            Ok(By::Identity(_))
        ));
    }
    for moment in [BEGIN - 1, END + 1] {
        let told = told(verify(&at(&unlogged, moment), &alone));
        orlop_testkit::assert_contains!(told, "and the timestamp of the signature is 2023");
    }
    let told = |bundle: &Value, demand: &Demand<'_>| told(verify(bundle, demand));
    assert!(
        told(&timeless, &noted)
            .starts_with("nothing proves that it was signed while its certificate was valid")
    );
    assert!(
        told(&unlogged, &alone)
            .starts_with("nothing proves that it was signed while its certificate was valid")
    );
    assert!(told(&at(&unlogged, USED), &noted).starts_with("it is not in a transparency log"));
    let unasked = told(&at(&timeless, USED), &scene.demand());
    assert!(
        unasked.ends_with("does not count, because the policy names no authority with \"tsaCA…\""),
        "{unasked}"
    );
    let of_other = stamped(unlogged.clone(), |_| authority.stamp(b"other", USED));
    assert!(told(&of_other, &alone).ends_with("it is for another signature"));
    // The log's time takes precedence over the timestamp.
    let both = at(&scene.bundle(&person), END + 1);
    verify(&both, &noted).unwrap();
    // An invalid timestamp does not prevent the use of another one.
    let mut two = at(&unlogged, USED);
    let stamps = &mut two["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"];
    let good = stamps[0].clone();
    let bad = serde_json::json!({ "signedTimestamp": "AAAA" });
    *stamps = serde_json::json!([bad, good]);
    verify(&two, &alone).unwrap();
    let stamps = &mut two["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"];
    *stamps = serde_json::json!([good, good, good, good, good]);
    assert!(told(&two, &alone).contains("too many timestamps"));
    assert!(matches!(alone.signer, Signer::Identity(_)));
}

/// Checks requests and responses with openssl.
#[test]
fn openssl_understands_the_same() {
    skip_unless!(machine::has_program("openssl"));
    let scratch = Scratch::new();
    let authority = StampAuthority::new();
    let run = |words: &[&str]| {
        let mut openssl = Command::new("openssl");
        orlop_testkit::process::run(openssl.args(words).current_dir(scratch.dir()));
    };
    std::fs::write(scratch.path("message"), b"message").unwrap();
    std::fs::write(scratch.path("root.pem"), authority.root.pem()).unwrap();
    std::fs::write(scratch.path("ours"), authority.stamp(b"message", USED)).unwrap();
    let used = USED.to_string();
    run(&[
        "ts", "-verify", "-data", "message", "-in", "ours", "-CAfile", "root.pem", "-attime", &used,
    ]);
    let config = "[tsa]\ndefault_tsa = one\n[one]\nserial = ./serial\ndigests = sha256, sha512\n\
                  default_policy = 1.2.3.4\nsigner_digest = sha384\ness_cert_id_alg = sha256\n\
                  clock_precision_digits = 3\naccuracy = secs:1\nordering = yes\ntsa_name = yes\n\
                  ess_cert_id_chain = no\n[usage]\nextendedKeyUsage = critical, timeStamping\n\
                  [ca]\nbasicConstraints = critical, CA:true\n";
    std::fs::write(scratch.path("config"), config).unwrap();
    for kind in [&["EC", "-pkeyopt", "ec_paramgen_curve:P-384"][..], &["RSA"]] {
        std::fs::write(scratch.path("serial"), "01").unwrap();
        for (name, section) in [("ca", "ca"), ("own", "usage")] {
            let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
            let certificate = format!("{name}.pem");
            run(&[&["genpkey", "-out", &key, "-algorithm"], kind].concat());
            let subject = format!("/CN={name}");
            run(&[
                "req", "-new", "-key", &key, "-subj", &subject, "-out", &request,
            ]);
            let by: &[&str] = if name == "ca" {
                &["-signkey", "ca.key"]
            } else {
                &["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
            };
            let words = [
                "x509",
                "-req",
                "-in",
                &request,
                "-out",
                &certificate,
                "-extfile",
                "config",
                "-extensions",
                section,
            ];
            run(&[&words[..], by].concat());
        }
        run(&[
            "ts", "-query", "-data", "message", "-sha512", "-cert", "-out", "query",
        ]);
        run(&[
            "ts",
            "-reply",
            "-queryfile",
            "query",
            "-signer",
            "own.pem",
            "-inkey",
            "own.key",
            "-config",
            "config",
            "-section",
            "one",
            "-out",
            "reply",
        ]);
        let reply = std::fs::read(scratch.path("reply")).unwrap();
        let root = std::fs::read(scratch.path("ca.pem")).unwrap();
        let trusted = Authorities::from_pem(&root).unwrap();
        let at = check(&reply, b"message", &trusted).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        assert!((now - 60..=now).contains(&at), "{at}");
        assert!(check(&reply, b"other", &trusted).is_err());
    }
}
