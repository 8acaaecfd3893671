//! The packet filter: rules, and the ways to get them into the kernel.
//!
//! The chains and rules are those the standard plugins make, in the tables
//! `iptables` works on, so that either implementation removes what the other
//! made. Where `iptables` is the nf_tables one (or there is none), they are
//! handed to the kernel directly; where it is the legacy one, to
//! `iptables-restore`. Pods are masqueraded, and ports are mapped to them, by a
//! table of our own ([`Masquerade`], [`PortMaps`]) where that can be, lest each
//! pod cost more than the last.

mod apply;
mod error;
mod expression;
mod iptables;
mod masquerade;
mod nftables;
mod noted;
mod own_table;
mod port_guard;
mod port_maps;
mod rule;

pub(crate) use apply::{
    add_noted, apply, apply_anew, are_ports_mapped, chain_exists, forget_udp, guard_port,
    has_masqueraded, has_noted, has_port_mapped, is_masqueraded, map_ports, masquerade,
    port_is_guarded, remove_noted, unguard_port, unmap_ports, unmasquerade, unmasquerade_all,
};
pub(crate) use error::FilterError;
pub(crate) use masquerade::Masquerade;
pub(crate) use noted::Noted;
pub(crate) use port_guard::PortGuard;
pub(crate) use port_maps::{Detour, PortMaps};
pub(crate) use rule::{Family, Match, Rule, Step, Table, Target, chain_name, hash_name};
