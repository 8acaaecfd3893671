//! Checkpoints: size and root hash of a log's tree, signed by the log (C2SP, tlog-checkpoint and signed-note).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::key::PublicKey;

/// Maximum size of a checkpoint.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of signatures.
const MAX_SIGNATURES: usize = 32;

/// The checkpoint of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint<'a> {
    /// The log's name.
    pub(crate) origin: &'a str,
    /// The number of entries.
    pub(crate) size: u64,
    /// The hash of its tree.
    pub(crate) root: Vec<u8>,
    /// The signed text.
    text: &'a str,
    /// The name and the signature of each signer.
    signatures: Vec<(&'a str, Vec<u8>)>,
}

impl<'a> Checkpoint<'a> {
    /// Parses a signed checkpoint.
    pub(crate) fn parse(note: &'a str) -> Option<Self> {
        if note.len() > MAX_BYTES {
            return None;
        }
        // The last empty line separates the signatures.
        let end = note.rfind("\n\n")?;
        let (text, below) = (&note[..=end], &note[end + 2..]);
        let mut lines = text.lines();
        let origin = lines.next().filter(|origin| !origin.is_empty())?;
        let size = lines.next()?;
        let is_number = size.bytes().all(|byte| byte.is_ascii_digit());
        let size = size.parse().ok().filter(|_| is_number)?;
        let root = BASE64_STANDARD.decode(lines.next()?).ok()?;
        let mut signatures = Vec::new();
        for line in below.strip_suffix('\n')?.split('\n') {
            let (name, signature) = line.strip_prefix("\u{2014} ")?.rsplit_once(' ')?;
            if signatures.len() == MAX_SIGNATURES {
                return None;
            }
            signatures.push((name, BASE64_STANDARD.decode(signature).ok()?));
        }
        Some(Self {
            origin,
            size,
            root,
            text,
            signatures,
        })
    }

    /// Reports whether the log with this key signed the checkpoint. The signer's name may differ from the
    /// checkpoint's origin, as with Rekor.
    pub(crate) fn is_by(&self, key: &PublicKey) -> bool {
        self.signatures.iter().any(|(name, signature)| {
            // The first bytes identify the key.
            let Some((hint, signature)) = signature.split_at_checked(4) else {
                return false;
            };
            let ids = [Some(key.id()), key.named_id(name)];
            let is_meant = ids.iter().flatten().any(|id| &id[..4] == hint);
            is_meant && key.has_signed(self.text.as_bytes(), signature)
        })
    }
}
