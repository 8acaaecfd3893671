//! Choosing the way into the kernel, and going it.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::error::FilterError;
use super::masquerade::{self, Masquerade};
use super::noted::Noted;
use super::port_guard::PortGuard;
use super::port_maps::{Detour, PortMaps};
use super::rule::{Family, Rule, Step, Table};
use super::{iptables, nftables};
use crate::MacAddress;
use crate::netlink::{Protocol, Socket};

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
static GATE: Mutex<Option<Line>> = Mutex::new(None);

/// A socket kept open: when one is closed, the kernel waits (20 ms) until it
/// has got rid of all that was removed before.
#[derive(Debug)]
struct Line {
    socket: Socket,
    /// The network namespace it belongs to.
    namespace: u64,
}

/// Makes changes to a table, all or none.
pub(crate) fn apply(family: Family, table: Table, steps: &[Step]) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => nftables::apply(connect(&mut line)?, family, table, steps),
        Way::Programs(dir) => iptables::apply(dir, family, table, steps),
    }
}

/// Makes changes of which some must be new. What a crash has left of them is removed first.
pub(crate) fn apply_anew(
    family: Family,
    table: Table,
    removal: &[Step],
    steps: &[Step],
) -> Result<(), FilterError> {
    match apply(family, table, steps) {
        Err(FilterError::Exists) => {
            apply(family, table, removal)?;
            apply(family, table, steps)
        }
        done => done,
    }
}

/// Whether a chain is there.
pub(crate) fn chain_exists(family: Family, table: Table, chain: &str) -> Result<bool, FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => nftables::chain_exists(connect(&mut line)?, family, table, chain),
        Way::Programs(dir) => iptables::chain_exists(dir, family, table, chain),
    }
}

/// Has what these addresses of an owner's send masqueraded. Unsupported where rules are handed to
/// `iptables`, or the kernel knows no sets.
pub(crate) fn masquerade(
    of: &Masquerade,
    owner: &str,
    addresses: &[IpAddr],
) -> Result<(), FilterError> {
    in_own_table("masquerade", |socket| of.add(socket, owner, addresses))
}

/// Undoes that, as far as it is there.
pub(crate) fn unmasquerade(
    of: &Masquerade,
    owner: &str,
    addresses: &[IpAddr],
) -> Result<(), FilterError> {
    by_sets(|socket| of.remove(socket, owner, addresses)).map(drop)
}

/// Undoes it for all addresses of an owner's.
pub(crate) fn unmasquerade_all(family: Family, owner: &str) -> Result<(), FilterError> {
    by_sets(|socket| masquerade::remove_owner(socket, family, owner)).map(drop)
}

/// Whether any address of an owner's is masqueraded so.
pub(crate) fn has_masqueraded(family: Family, owner: &str) -> Result<bool, FilterError> {
    let found = by_sets(|socket| masquerade::of_owner(socket, family, owner))?;
    Ok(found.is_some_and(|found| !found.is_empty()))
}

/// Whether this address of an owner's is masqueraded so.
pub(crate) fn is_masqueraded(
    of: &Masquerade,
    owner: &str,
    address: IpAddr,
) -> Result<bool, FilterError> {
    let stands = by_sets(|socket| of.stands(socket, owner, address))?;
    Ok(stands.unwrap_or(false))
}

/// Has ports lead to a pod at this address. Unsupported as [`masquerade`] is.
pub(crate) fn map_ports(
    of: &PortMaps,
    to: IpAddr,
    detour: Option<&Detour<'_>>,
) -> Result<(), FilterError> {
    in_own_table("map ports", |socket| of.add(socket, to, detour))
}

/// Undoes that, as far as it is there.
pub(crate) fn unmap_ports(of: &PortMaps) -> Result<(), FilterError> {
    by_sets(|socket| of.remove(socket)).map(drop)
}

/// Whether any of the ports leads to their owner so.
pub(crate) fn has_port_mapped(of: &PortMaps) -> Result<bool, FilterError> {
    Ok(by_sets(|socket| of.any_stands(socket))?.unwrap_or(false))
}

/// Whether all of them lead to their pod so.
pub(crate) fn are_ports_mapped(of: &PortMaps) -> Result<bool, FilterError> {
    Ok(by_sets(|socket| of.all_stand(socket))?.unwrap_or(false))
}

/// Adds rules about an address at the end of a chain that all pods share, after steps that make the chain.
pub(crate) fn add_noted(of: &Noted<'_>, frame: &[Step], rules: &[Rule]) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => of
            .add(connect(&mut line)?, frame, rules)
            .map_err(nftables::failed),
        Way::Programs(dir) => {
            let mut steps = frame.to_vec();
            steps.push(of.removal());
            let rules = rules.iter().cloned();
            steps.extend(rules.map(|rule| Step::Append(of.chain.to_owned(), rule)));
            iptables::apply(dir, Family::of(of.address), of.table, &steps)
        }
    }
}

/// Undoes that, as far as it is there.
pub(crate) fn remove_noted(of: &Noted<'_>) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => of.remove(connect(&mut line)?).map_err(nftables::failed),
        Way::Programs(dir) => {
            iptables::apply(dir, Family::of(of.address), of.table, &[of.removal()])
        }
    }
}

/// Whether it is noted in a way that programs know nothing of.
pub(crate) fn has_noted(of: &Noted<'_>) -> Result<bool, FilterError> {
    Ok(by_sets(|socket| of.stands(socket))?.unwrap_or(false))
}

fn in_own_table(
    what: &str,
    work: impl FnOnce(&mut Socket) -> io::Result<()>,
) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    if *WAY != Way::Direct {
        let why = format!("cannot {what} with nftables sets: this node uses legacy iptables");
        return Err(FilterError::Unsupported(why));
    }
    match work(connect(&mut line)?) {
        // An expression, or a kind of chain, that this kernel was built without.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FilterError::Unsupported(
            format!("this kernel cannot {what} with nf_tables: {error}"),
        )),
        done => done.map_err(nftables::failed),
    }
}

/// Nothing where nf_tables is not what this node uses, or knows nothing of sets.
fn by_sets<T>(work: impl FnOnce(&mut Socket) -> io::Result<T>) -> Result<Option<T>, FilterError> {
    let mut line = GATE.lock();
    if *WAY != Way::Direct {
        return Ok(None);
    }
    match work(connect(&mut line)?).map_err(nftables::failed) {
        Err(FilterError::Unsupported(_)) => Ok(None),
        done => done.map(Some),
    }
}

/// Lets through from a bridge's port only what bears an Ethernet address.
pub(crate) fn guard_port(
    guard: &PortGuard,
    port: &str,
    mac: MacAddress,
) -> Result<(), FilterError> {
    on_bridges(|socket| guard.set_up(socket, port, mac))
}

/// Removes what [`guard_port`] made, if it is there.
pub(crate) fn unguard_port(guard: &PortGuard) -> Result<(), FilterError> {
    on_bridges(|socket| guard.tear_down(socket))
}

/// Whether what [`guard_port`] made is there.
pub(crate) fn port_is_guarded(guard: &PortGuard) -> Result<bool, FilterError> {
    on_bridges(|socket| guard.stands(socket))
}

/// There is one way only: no program of `iptables` looks at bridges' packets.
fn on_bridges<T>(work: impl FnOnce(&mut Socket) -> io::Result<T>) -> Result<T, FilterError> {
    let mut line = GATE.lock();
    work(connect(&mut line)?).map_err(nftables::failed)
}

/// Has the kernel forget UDP "connections" to ports that lead elsewhere now:
/// it would send the packets of a busy client where they went before.
pub(crate) fn forget_udp(
    family: Family,
    is_stale: impl Fn(IpAddr, u16) -> bool,
) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    connect(&mut line)?
        .forget_udp(family.number(), is_stale)
        .map_err(nftables::failed)
}

/// The socket into the calling thread's namespace.
fn connect(line: &mut Option<Line>) -> Result<&mut Socket, FilterError> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")
        .map_err(nftables::failed)?
        .ino();
    if line.as_ref().is_none_or(|line| line.namespace != namespace) {
        let socket = Socket::open(Protocol::Netfilter).map_err(nftables::failed)?;
        return Ok(&mut line.insert(Line { socket, namespace }).socket);
    }
    match line {
        Some(line) => Ok(&mut line.socket),
        None => Err(FilterError::Failed("the socket was closed".to_owned())),
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
