//! Choice of the kernel interface for packet filter changes, and the changes themselves.

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

/// The way in which rules reach the kernel on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// Over netlink.
    Direct,
    /// With the programs in this directory, which use the legacy tables.
    Programs(PathBuf),
}

static WAY: LazyLock<Way> = LazyLock::new(choose);

/// Serialises all access: reading and changing a table are two steps.
static GATE: Mutex<Option<Line>> = Mutex::new(None);

/// A socket kept open. When a socket is closed, the kernel waits (20 ms) until it has freed all rules removed before.
#[derive(Debug)]
struct Line {
    socket: Socket,
    /// The network namespace of the socket.
    namespace: u64,
}

/// Changes a table: all steps or none.
pub(crate) fn apply(family: Family, table: Table, steps: &[Step]) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => nftables::apply(connect(&mut line)?, family, table, steps),
        Way::Programs(dir) => iptables::apply(dir, family, table, steps),
    }
}

/// Changes a table with steps that require new objects. Removes the remains of a crash first.
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

/// Reports whether a chain exists.
pub(crate) fn chain_exists(family: Family, table: Table, chain: &str) -> Result<bool, FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => nftables::chain_exists(connect(&mut line)?, family, table, chain),
        Way::Programs(dir) => iptables::chain_exists(dir, family, table, chain),
    }
}

/// Masquerades packets from an owner's addresses. Unsupported if this node changes rules with `iptables`, or if the
/// kernel has no sets.
pub(crate) fn masquerade(
    of: &Masquerade,
    owner: &str,
    addresses: &[IpAddr],
) -> Result<(), FilterError> {
    in_own_table("masquerade", |socket| of.add(socket, owner, addresses))
}

/// Removes the masquerading of these addresses, as far as it exists.
pub(crate) fn unmasquerade(
    of: &Masquerade,
    owner: &str,
    addresses: &[IpAddr],
) -> Result<(), FilterError> {
    by_sets(|socket| of.remove(socket, owner, addresses)).map(drop)
}

/// Removes the masquerading of all addresses of an owner.
pub(crate) fn unmasquerade_all(family: Family, owner: &str) -> Result<(), FilterError> {
    by_sets(|socket| masquerade::remove_owner(socket, family, owner)).map(drop)
}

/// Reports whether a set masquerades any address of an owner.
pub(crate) fn has_masqueraded(family: Family, owner: &str) -> Result<bool, FilterError> {
    let found = by_sets(|socket| masquerade::of_owner(socket, family, owner))?;
    Ok(found.is_some_and(|found| !found.is_empty()))
}

/// Reports whether a set masquerades this address of an owner.
pub(crate) fn is_masqueraded(
    of: &Masquerade,
    owner: &str,
    address: IpAddr,
) -> Result<bool, FilterError> {
    let stands = by_sets(|socket| of.stands(socket, owner, address))?;
    Ok(stands.unwrap_or(false))
}

/// Maps ports to a pod at this address. Unsupported in the same cases as [`masquerade`].
pub(crate) fn map_ports(
    of: &PortMaps,
    to: IpAddr,
    detour: Option<&Detour<'_>>,
) -> Result<(), FilterError> {
    in_own_table("map ports", |socket| of.add(socket, to, detour))
}

/// Removes the port mappings, as far as they exist.
pub(crate) fn unmap_ports(of: &PortMaps) -> Result<(), FilterError> {
    by_sets(|socket| of.remove(socket)).map(drop)
}

/// Reports whether a map leads any of the ports to their owner.
pub(crate) fn has_port_mapped(of: &PortMaps) -> Result<bool, FilterError> {
    Ok(by_sets(|socket| of.any_stands(socket))?.unwrap_or(false))
}

/// Reports whether maps lead all of the ports to their pod.
pub(crate) fn are_ports_mapped(of: &PortMaps) -> Result<bool, FilterError> {
    Ok(by_sets(|socket| of.all_stand(socket))?.unwrap_or(false))
}

/// Adds rules about an address at the end of a chain that all pods share, after the steps that create the chain.
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

/// Removes the rules about an address, as far as they exist.
pub(crate) fn remove_noted(of: &Noted<'_>) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    match &*WAY {
        Way::Direct => of.remove(connect(&mut line)?).map_err(nftables::failed),
        Way::Programs(dir) => {
            iptables::apply(dir, Family::of(of.address), of.table, &[of.removal()])
        }
    }
}

/// Reports whether a note of the rules exists, which the plugin's program does not know.
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
        // This kernel was built without the expression or the kind of chain.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FilterError::Unsupported(
            format!("this kernel cannot {what} with nf_tables: {error}"),
        )),
        done => done.map_err(nftables::failed),
    }
}

/// Runs `work` on the socket; returns `None` if this node does not use nf_tables or the kernel has no sets.
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

/// Drops packets from a bridge's port that have another Ethernet address as their source.
pub(crate) fn guard_port(
    guard: &PortGuard,
    port: &str,
    mac: MacAddress,
) -> Result<(), FilterError> {
    on_bridges(|socket| guard.set_up(socket, port, mac))
}

/// Removes the rules of [`guard_port`], if they exist.
pub(crate) fn unguard_port(guard: &PortGuard) -> Result<(), FilterError> {
    on_bridges(|socket| guard.tear_down(socket))
}

/// Reports whether the rules of [`guard_port`] exist.
pub(crate) fn port_is_guarded(guard: &PortGuard) -> Result<bool, FilterError> {
    on_bridges(|socket| guard.stands(socket))
}

/// Runs `work` on the socket. Netlink is the only way here: the `iptables` programs do not filter packets of bridges.
fn on_bridges<T>(work: impl FnOnce(&mut Socket) -> io::Result<T>) -> Result<T, FilterError> {
    let mut line = GATE.lock();
    work(connect(&mut line)?).map_err(nftables::failed)
}

/// Removes UDP "connections" to remapped ports from the kernel's table. Otherwise the kernel would send the packets
/// of a busy client to the old destination.
pub(crate) fn forget_udp(
    family: Family,
    is_stale: impl Fn(IpAddr, u16) -> bool,
) -> Result<(), FilterError> {
    let mut line = GATE.lock();
    connect(&mut line)?
        .forget_udp(family.number(), is_stale)
        .map_err(nftables::failed)
}

/// Returns the socket for the calling thread's namespace.
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

/// Chooses the way by the node's `iptables` variant, so that `iptables` shows the rules.
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
    // A symbolic link, possibly through others, to `xtables-legacy-multi` or `xtables-nft-multi`; before 1.8 there
    // was only `xtables-multi`.
    let target = std::fs::canonicalize(program).unwrap_or_default();
    let name = target
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.contains("legacy") || name == "xtables-multi"
}
