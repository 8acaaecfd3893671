//! Entry points for fuzzing of untrusted input. Not part of the interface.

use crate::checkpoint::Checkpoint;
use crate::timestamp;
use crate::{
    Authorities, Beside, Bundle, Certificate, Content, Demand, Detached, Envelope, Identity,
    Pattern, PublicKey, Signer, Statement, Subject,
};

/// Parses a bundle with its certificates and all other data.
pub fn bundle(data: &[u8], roots: &[u8], key: &[u8]) {
    let (Ok(authorities), Ok(key)) = (Authorities::from_pem(roots), PublicKey::from_pem(key))
    else {
        return;
    };
    let keys = [key];
    let identity = Identity {
        authorities,
        issuer: Some("https://issuer.example".to_owned()),
        subject: vec![
            Subject::Host("a.example".to_owned()),
            Subject::Email("a@b.example".to_owned()),
        ],
        certificate_logs: keys.to_vec(),
    };
    let demands = [Signer::Keys(&keys), Signer::Identity(&identity)].map(|signer| Demand {
        signer,
        logs: Some(&keys),
        stampers: Some(&identity.authorities),
        now: 0,
    });
    let text = String::from_utf8_lossy(data);
    for demand in demands {
        if let Ok(bundle) = Bundle::parse(data) {
            let _ = bundle.verify(&demand, Some(b""));
            if let Content::Envelope(envelope) = &bundle.content {
                let _ = Statement::parse(&envelope.payload);
            }
        }
        let beside = Beside {
            certificate: Some(&text),
            chain: Some(&text),
            log: Some(&text),
            is_stamped: false,
        };
        let detached = Detached {
            message: data,
            signature: data,
            beside,
        };
        let _ = detached.verify(&demand);
        if let Ok(envelope) = Envelope::parse(data) {
            let _ = envelope.verify(beside, &demand);
        }
    }
    let _ = Statement::parse(data);
    let _ = Checkpoint::parse(&text);
    let _ = Pattern::parse(&text).map(|pattern| pattern.matches(&text));
}

/// Parses a certificate. Without the promises of logs it must not be longer.
pub fn certificate(data: &[u8], roots: &[u8]) {
    let Ok(certificate) = Certificate::from_der(data) else {
        return;
    };
    let before = certificate.before_logs();
    assert!(before.is_some_and(|before| before.len() <= data.len()));
    if let Ok(authorities) = Authorities::from_pem(roots) {
        let _ = authorities.check(&certificate, &[data.to_vec()], certificate.from);
    }
}

/// Parses a timestamp. The result must be the timestamp's own time.
pub fn stamp(data: &[u8], roots: &[u8], of: &[u8], at: i64) {
    let Ok(authorities) = Authorities::from_pem(roots) else {
        return;
    };
    if let Ok(moment) = timestamp::check(data, of, &authorities) {
        assert_eq!(moment, at, "another time than was signed");
    }
}
