//! The packet filter: rules, and the ways to pass them to the kernel.
//!
//! The chains and rules are those of the standard plugins, in the tables of `iptables`, so that either implementation
//! removes the rules of the other. If `iptables` is the nf_tables variant (or missing), this module changes the
//! kernel's rules directly. If it is the legacy variant, the module runs `iptables-restore`. If possible, a table of
//! our own ([`Masquerade`], [`PortMaps`]) holds masquerading and port mappings. Its cost per pod does not grow with
//! the number of pods.

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
