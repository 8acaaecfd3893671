//! What all kinds of signatures come down to.

use std::borrow::Cow;

use crate::body::Signed;
use crate::entry::Entry;
use crate::key::PublicKey;
use crate::{Authorities, Certificate, Refusal, timestamp};

/// A signature with all that came with it.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The bytes that the signature is of.
    pub(crate) message: Cow<'a, [u8]>,
    /// The payload of an envelope, which is a part of the message.
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) signature: &'a [u8],
    /// The signer's own first; none where it is signed with a key alone.
    pub(crate) certificates: Cow<'a, [Vec<u8>]>,
    pub(crate) entries: Cow<'a, [Entry]>,
    /// What authorities have said of when it was made (RFC 3161).
    pub(crate) stamps: &'a [Vec<u8>],
    /// Whether there is such a timestamp that is not read.
    pub(crate) is_stamped: bool,
}

impl Evidence<'_> {
    /// The signer's certificate, and those that came with it.
    pub(crate) fn certificates(&self) -> Result<(Certificate, &[Vec<u8>]), Refusal> {
        let (leaf, chain) = self
            .certificates
            .split_first()
            .ok_or(Refusal::NoCertificate)?;
        Ok((Certificate::from_der(leaf)?, chain))
    }

    /// Fails unless it is in one of the logs; when it was put there, if the log says so.
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

    /// When it was made, by what one of the authorities says.
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

    /// What to add where a timestamp is missed that is there.
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
