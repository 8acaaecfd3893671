//! Keys and messages of GnuPG: what it makes is believed, and what it does not believe is not.

/// Begins a test: skips it where there is no GnuPG, else gives one without keys.
macro_rules! gpg {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("gpg"));
        orlop_testkit::Gpg::new()
    }};
}

mod keys;
mod made;
mod messages;
mod statements;

use std::time::{SystemTime, UNIX_EPOCH};

use orlop_openpgp::{Error, Keyring, Message, Refusal};
use orlop_testkit::{Gpg, machine, skip_unless};

const CONTENT: &[u8] = b"{\"critical\": {}}";

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn ring(files: &[&[u8]]) -> Keyring {
    let mut ring = Keyring::new();
    for file in files {
        ring.add(file).unwrap();
    }
    ring
}

/// By whom a message is signed; else why it is not believed.
fn verify(message: &[u8], keys: &[&[u8]]) -> Result<String, Refusal> {
    let message = Message::parse(message).unwrap();
    let keys = ring(keys);
    let verified = message.verify(&keys, now())?;
    assert_eq!(verified.content, CONTENT);
    Ok(verified.signer.to_string())
}
