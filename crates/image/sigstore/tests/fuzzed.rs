//! A bounded run of fuzzing (`ORLOP_FUZZ_SECONDS` for more): no bundle, certificate or log's entry panics, hangs or
//! takes the machine.

use orlop_sigstore::fuzzing;
use orlop_testkit::Fuzz;
use orlop_testkit::sigstore::{
    CodeAuthority, Key, Person, StampAuthority, TransparencyLog, Wish, stamped, statement,
};

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// When something was there.
const AT: u64 = 1_700_000_000;

fn person(root: &CodeAuthority, log: &Key) -> Person {
    root.certify(&Wish {
        emails: vec!["a@b.example"],
        addresses: vec!["https://a.example/x@refs/heads/main"],
        hosts: vec!["a.example"],
        issuers: [Some("https://issuer.example"); 2],
        log: Some(log),
        ..Wish::default()
    })
}

#[test]
fn no_bundle_breaks_the_parser() {
    let (root, log) = (
        CodeAuthority::new("root"),
        TransparencyLog::new("log.example"),
    );
    let person = person(&root, &log.key);
    let stamps = StampAuthority::new();
    let said = statement(
        DIGEST,
        Some("a.example/b"),
        "https://slsa.dev/provenance/v1",
    );
    let noted = Some((&log, 1_700_000_000));
    let detached = person.sign_image(DIGEST, "a.example/b", noted);
    let (roots, key) = (root.pem(), log.key.pem());
    Fuzz::new()
        .example(person.bundle(&said, noted).to_string())
        .example(Person::with(Key::new()).bundle(&said, noted).to_string())
        .example(stamped(person.bundle(&said, None), |it| stamps.stamp(it, AT)).to_string())
        .example(person.attest(&said, noted).envelope)
        .example(person.bundle_of_message(b"", noted).to_string())
        .example(detached.log.unwrap())
        .example(detached.certificate.unwrap())
        .example(said.to_string())
        .example(log.checkpoint(11, &[0; 32]))
        .words([
            "null",
            "{}",
            "[]",
            "-1",
            "1e999",
            "18446744073709551616",
            "\\ud800",
            "[[[[[[",
        ])
        .words([
            "\"publicKey\":{}",
            "\"certificate\":",
            "\n\n",
            "\u{2014} ",
            "AAAA",
            "==",
            "**",
        ])
        .run(|data| fuzzing::bundle(data, roots.as_bytes(), key.as_bytes()));
}

#[test]
fn no_certificate_breaks_the_parser() {
    let (root, log) = (CodeAuthority::new("root"), Key::new());
    let roots = root.pem();
    Fuzz::new()
        .example(person(&root, &log).certificates[0].clone())
        .example(person(&root, &log).certificates[1].clone())
        .example(root.certify(&Wish::default()).certificates[0].clone())
        .words([
            &b"\x30\x80"[..],
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x82",
            b"\x04\x00",
            b"\x17\x0d",
            b"\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x02",
            b"\x2b\x06\x01\x04\x01\x83\xbf\x30\x01\x08",
        ])
        .run(|data| fuzzing::certificate(data, roots.as_bytes()));
}

#[test]
fn no_timestamp_breaks_the_parser_or_is_forged() {
    let authority = StampAuthority::new();
    let roots = authority.root.pem();
    let mut bare = authority.wish(b"message", AT);
    bare.certificates = Vec::new();
    bare.fraction = ".125";
    Fuzz::new()
        .example(authority.stamp(b"message", AT))
        .example(authority.make(&bare))
        .words([
            &b"\x30\x80"[..],
            b"\x30\x84\xff\xff\xff\xff",
            b"\xa0\x00",
            b"\x31\x00",
            b"\x18\x0f",
            b"\x06\x00",
        ])
        .run(|data| fuzzing::stamp(data, roots.as_bytes(), b"message", AT as i64));
}
