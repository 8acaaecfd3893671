//! The common form of all kinds of signatures.

use std::borrow::Cow;

use crate::body::Signed;
use crate::entry::Entry;
use crate::key::PublicKey;
use crate::{Authorities, Certificate, Refusal, timestamp};

/// A signature with all data that came with it.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The signed bytes.
    pub(crate) message: Cow<'a, [u8]>,
    /// The payload of an envelope, which is a part of the message.
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) signature: &'a [u8],
    /// The signer's certificate comes first; empty if only a key was used.
    pub(crate) certificates: Cow<'a, [Vec<u8>]>,
    pub(crate) entries: Cow<'a, [Entry]>,
    /// Timestamps of authorities (RFC 3161).
    pub(crate) stamps: &'a [Vec<u8>],
    /// Whether there is a timestamp in an unsupported form.
    pub(crate) is_stamped: bool,
}

impl Evidence<'_> {
    /// Returns the signer's certificate, and those that came with it.
    pub(crate) fn certificates(&self) -> Result<(Certificate, &[Vec<u8>]), Refusal> {
        let (leaf, chain) = self
            .certificates
            .split_first()
            .ok_or(Refusal::NoCertificate)?;
        Ok((Certificate::from_der(leaf)?, chain))
    }

    /// Fails unless the signature is in one of the logs. Returns the time of its entry, if the log states it.
    pub(crate) fn logged(
        &self,
        logs: &[PublicKey],
        key: &[u8],
        certificate: Option<&[u8]>,
    ) -> Result<Option<i64>, Refusal> {
        let signed = Signed {
            message: &self.message,
            payload: self.payload,
            signature: self.signature,
            key,
            certificate,
        };
        let mut said: Result<_, Refusal> = Err(Refusal::NotLogged(format!(
            "it has no log entry{}",
            if self.stamps.is_empty() {
                self.but_stamped()
            } else {
                "; a timestamp by an authority (RFC 3161) does not replace it"
            }
        )));
        for entry in self.entries.iter() {
            match entry.check(logs, signed) {
                Ok(Some(moment)) => return Ok(Some(moment)),
                Ok(None) => said = Ok(None),
                Err(reason) if said.is_err() => said = Err(reason),
                Err(_) => {}
            }
        }
        said
    }

    /// Returns the time of the first valid timestamp by one of the authorities.
    pub(crate) fn stamped(&self, authorities: &Authorities) -> Result<i64, Refusal> {
        let mut said = Err(Refusal::NoTime(self.but_stamped()));
        for stamp in self.stamps {
            match timestamp::check(stamp, self.signature, authorities) {
                Ok(moment) => return Ok(moment),
                Err(reason) => said = Err(reason),
            }
        }
        said
    }

    /// Returns an explanation for messages if there is a timestamp that does not count.
    pub(crate) fn but_stamped(&self) -> &'static str {
        if !self.stamps.is_empty() {
            "; its timestamp by an authority (RFC 3161) does not count, because the policy names no \
             authority with \"tsaCA…\""
        } else if self.is_stamped {
            "; its timestamp by an authority (RFC 3161) does not count, because only bundles support it"
        } else {
            ""
        }
    }
}
