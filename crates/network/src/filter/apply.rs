//! Choosing the way into the kernel, and going it.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::rule::{Family, Step, Table};
use super::{iptables, nftables};
use crate::native::NativeError;

/// The packet filter could not be changed.
#[derive(Debug)]
pub(crate) enum FilterError {
    /// A chain that was to be new is there.
    Exists,
    /// Another program holds the lock.
    Locked(String),
    /// The kernel knows no such table or expression.
    Unsupported(String),
    /// Anything else.
    Failed(String),
}

impl From<FilterError> for NativeError {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Exists => Self::Filter("a chain of this name exists already".to_owned()),
            FilterError::Locked(message) => Self::Locked(message),
            FilterError::Unsupported(message) | FilterError::Failed(message) => {
                Self::Filter(message)
            }
        }
    }
}

/// How rules get into the kernel on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// By netlink.
    Direct,
    /// By the programs in this directory, whose tables are the legacy ones.
    Programs(PathBuf),
}

static WAY: LazyLock<Way> = LazyLock::new(choose);

/// Looking and changing are two steps: one after the other.
static GATE: Mutex<()> = Mutex::new(());

/// Makes changes to a table, all or none.
pub(crate) fn apply(family: Family, table: Table, steps: &[Step]) -> Result<(), FilterError> {
    let _gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*WAY {
        Way::Direct => nftables::apply(family, table, steps),
        Way::Programs(dir) => iptables::apply(dir, family, table, steps),
    }
}

/// Whether a chain is there.
pub(crate) fn chain_exists(family: Family, table: Table, chain: &str) -> Result<bool, FilterError> {
    match &*WAY {
        Way::Direct => nftables::chain_exists(family, table, chain),
        Way::Programs(dir) => iptables::chain_exists(dir, family, table, chain),
    }
}

/// Rules in the tables `iptables` does not show would confuse everybody: what
/// `iptables` is on this machine decides.
fn choose() -> Way {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(usual)
        .find(|dir| !dir.as_os_str().is_empty() && dir.join("iptables").exists());
    match found {
        Some(dir) if is_legacy(&dir.join("iptables")) => Way::Programs(dir),
        _ => Way::Direct,
    }
}

fn is_legacy(program: &Path) -> bool {
    // A link, over some others, to `xtables-legacy-multi` or
    // `xtables-nft-multi`; before 1.8 there was only `xtables-multi`.
    let target = std::fs::canonicalize(program).unwrap_or_default();
    let name = target
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.contains("legacy") || name == "xtables-multi"
}
