//! A key that is wrapped as a message of OpenPGP, for one or several.

use orlop_openpgp::{Encrypted, SecretKey, Unopened};
use zeroize::Zeroizing;

use crate::wrapped::Budget;
use crate::{PrivateKey, Refused};

/// Of more recipients nobody reads the names.
const MOST_TOLD: usize = 4;

/// What is wrapped, if one of the keys opens it.
pub(crate) fn open(
    bytes: &[u8],
    keys: &[&PrivateKey],
    budget: &mut Budget,
) -> Result<Option<Zeroizing<Vec<u8>>>, Refused> {
    let message = Encrypted::parse(bytes).map_err(Refused::OpenPgp)?;
    let keys = keys.iter().copied().filter_map(of_openpgp);
    match message.open(keys, || budget.spend().is_ok()) {
        Ok(opened) => Ok(Some(opened)),
        Err(Unopened::NoKey) => Ok(None),
        Err(Unopened::Revoked(key)) => Err(Refused::Revoked(key.to_string())),
        Err(Unopened::Changed) => Err(Refused::Tampered),
        Err(Unopened::Unsupported(what)) => Err(Refused::Unsupported(what)),
        Err(Unopened::Unreadable(error)) => Err(Refused::OpenPgp(error)),
        Err(Unopened::TooMany) => Err(Refused::TooMany),
    }
}

fn of_openpgp(key: &PrivateKey) -> Option<&SecretKey> {
    match key {
        PrivateKey::OpenPgp(key) => Some(key),
        _ => None,
    }
}

/// For which keys it is, for messages.
pub(crate) fn recipients(bytes: &[u8]) -> Vec<String> {
    let message = Encrypted::parse(bytes);
    message.map_or_else(
        |_| Vec::new(),
        |message| message.recipients().take(MOST_TOLD).collect(),
    )
}
