//! Log entries, with the log's promises.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::Refusal;
use crate::body::{self, Signed};
use crate::checkpoint::Checkpoint;
use crate::key::PublicKey;
use crate::proof::Proof;

/// An unverified log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The ID of the log's key.
    pub(crate) log: Vec<u8>,
    /// The entry's index in the log.
    pub(crate) number: u64,
    /// The entry's time; 0 if the log does not state it.
    pub(crate) moment: u64,
    /// The entry's contents.
    pub(crate) body: Vec<u8>,
    /// The log's signature of all of the above: a promise to include the entry, and a timestamp.
    pub(crate) promise: Option<Vec<u8>>,
    pub(crate) proof: Option<Proof>,
}

impl Entry {
    /// Fails unless the entry is in one of the logs, and for the signed object. Returns its time, if the log has
    /// signed that.
    pub(crate) fn check(
        &self,
        logs: &[PublicKey],
        signed: Signed<'_>,
    ) -> Result<Option<i64>, Refusal> {
        let checkpoint = match &self.proof {
            Some(proof) => Some(
                Checkpoint::parse(&proof.checkpoint)
                    .ok_or_else(|| Refusal::Proof("its checkpoint is malformed".to_owned()))?,
            ),
            None => None,
        };
        let is_meant = |log: &&PublicKey| {
            let named = checkpoint.as_ref().and_then(|it| log.named_id(it.origin));
            log.id() == self.log[..] || named.is_some_and(|id| id == self.log[..])
        };
        let log = logs.iter().find(is_meant);
        let log = log.ok_or_else(|| Refusal::OtherLog(orlop_text::hex::encode(&self.log)))?;
        if self.promise.is_none() && self.proof.is_none() {
            return Err(Refusal::NotLogged(
                "its log entry has neither a timestamp of the log nor a proof".to_owned(),
            ));
        }
        // All proofs that are present must be valid.
        let mut moment = None;
        if let Some(promise) = &self.promise {
            if !log.has_signed(self.promised().as_bytes(), promise) {
                return Err(Refusal::Promise);
            }
            // A log without timestamps writes none.
            moment = i64::try_from(self.moment).ok().filter(|moment| *moment > 0);
        }
        if let (Some(proof), Some(checkpoint)) = (&self.proof, &checkpoint) {
            self.is_proven(proof, checkpoint, log)
                .map_err(|reason| Refusal::Proof(reason.to_owned()))?;
        }
        body::check(&self.body, signed)?;
        Ok(moment)
    }

    /// Returns the bytes that a log signs for a new entry: JSON in the canonical form of RFC 8785.
    fn promised(&self) -> String {
        let body = BASE64_STANDARD.encode(&self.body);
        let log = orlop_text::hex::encode(&self.log);
        let (moment, number) = (self.moment, self.number);
        format!(
            r#"{{"body":"{body}","integratedTime":{moment},"logID":"{log}","logIndex":{number}}}"#
        )
    }

    fn is_proven(
        &self,
        proof: &Proof,
        checkpoint: &Checkpoint<'_>,
        log: &PublicKey,
    ) -> Result<(), &'static str> {
        let root = proof.root(&self.body);
        let root = root.ok_or("its index is outside of a tree of this size")?;
        if root[..] != proof.root[..] {
            return Err("its root hash is wrong");
        }
        if checkpoint.root != proof.root || checkpoint.size != proof.size {
            return Err("its checkpoint is for another tree");
        }
        if !checkpoint.is_by(log) {
            return Err("its checkpoint is not signed with the key of the log");
        }
        Ok(())
    }
}
