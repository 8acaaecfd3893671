//! Test fixtures: signers, authorities and logs.

use orlop_testkit::sigstore::{CodeAuthority, Key, Person, TransparencyLog, Wish, statement};
use serde_json::Value;

use crate::{
    Authorities, Bundle, By, Demand, Identity, PublicKey, Refusal, Signer, Statement, Subject,
};

pub(super) const DIGEST: &str =
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
pub(super) const ISSUER: &str = "https://issuer.example";
pub(super) const EMAIL: &str = "who@people.example";
/// Certificates are valid for ten minutes, and are used after one minute.
pub(super) const BEGIN: u64 = 1_700_000_000;
pub(super) const USED: u64 = BEGIN + 60;
pub(super) const END: u64 = BEGIN + 600;
pub(super) const NOW: i64 = 1_800_000_000;

/// Authorities, logs and the trusted identity.
pub(super) struct Scene {
    pub(super) root: CodeAuthority,
    pub(super) authority: CodeAuthority,
    pub(super) log: TransparencyLog,
    pub(super) certificate_log: Key,
    pub(super) logs: Vec<PublicKey>,
    pub(super) identity: Identity,
}

impl Scene {
    pub(super) fn new() -> Self {
        let root = CodeAuthority::new("root");
        let log = TransparencyLog::new("log.example");
        let certificate_log = Key::new();
        Self {
            authority: root.below("authority"),
            logs: vec![public(&log.key)],
            identity: Identity {
                authorities: Authorities::from_pem(root.pem().as_bytes()).unwrap(),
                issuer: Some(ISSUER.to_owned()),
                subject: vec![Subject::Email(EMAIL.to_owned())],
                certificate_logs: vec![public(&certificate_log)],
            },
            root,
            log,
            certificate_log,
        }
    }

    pub(super) fn wish(&self) -> Wish<'_> {
        Wish {
            emails: vec![EMAIL],
            issuers: [Some(ISSUER); 2],
            valid: (BEGIN, END),
            log: Some(&self.certificate_log),
            ..Wish::default()
        }
    }

    pub(super) fn person(&self, wish: &Wish<'_>) -> Person {
        let mut person = self.authority.certify(wish);
        // The intermediate certificate comes from another source.
        person.certificates.truncate(1);
        person
    }

    pub(super) fn demand(&self) -> Demand<'_> {
        demand(Signer::Identity(&self.identity), Some(&self.logs))
    }

    /// Trusts the intermediate authority, which bundles do not contain.
    pub(super) fn knowing_the_authority(mut self) -> Self {
        let known = Authorities::from_pem(self.root.pem().as_bytes()).unwrap();
        let known = known.with_intermediates(self.authority.pem().as_bytes());
        self.identity.authorities = known.unwrap();
        self
    }

    /// Returns a signed and logged statement about the image.
    pub(super) fn bundle(&self, person: &Person) -> Value {
        let statement = statement(DIGEST, None, Statement::COSIGN_SIGN);
        person.bundle(&statement, Some((&self.log, USED)))
    }

    pub(super) fn verify(&self, bundle: &Value) -> Result<By, Refusal> {
        verify(bundle, &self.demand())
    }
}

pub(super) fn public(key: &Key) -> PublicKey {
    PublicKey::from_pem(key.pem().as_bytes()).unwrap()
}

pub(super) fn verify(bundle: &Value, demand: &Demand<'_>) -> Result<By, Refusal> {
    Bundle::parse(bundle.to_string().as_bytes())?.verify(demand, None)
}

/// Returns the requirements for a signature without timestamps of authorities.
pub(super) fn demand<'a>(signer: Signer<'a>, logs: Option<&'a [PublicKey]>) -> Demand<'a> {
    Demand {
        signer,
        logs,
        stampers: None,
        now: NOW,
    }
}
