//! Masquerading of pod traffic: with a set of the network's pods, or with one chain per pod as `iptables` shows it if
//! sets are unsupported or not wanted.

use std::net::IpAddr;

use super::call::Call;
use crate::Cidr;
use crate::error::NativeError;
use crate::filter::{
    self, Family, FilterError, Masquerade, Match, Rule, Step, Table, Target, chain_name,
};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The key by which a network chooses between `iptables` and `nftables`.
const BACKEND: &str = "ipMasqBackend";

/// The chain with the jump to a pod's own chain.
const FROM: &str = "POSTROUTING";

/// The only chain with a masquerade target. With the target in every pod's own chain, the next pod would have to
/// wait: before it creates such a target, the kernel frees those removed last (20 ms).
const SHARED: &str = "CNI-MASQUERADE";

/// Masquerades packets from `addresses` to destinations outside their own networks.
pub(super) fn set_up(call: &Call<'_>, addresses: &[Cidr]) -> Result<(), NativeError> {
    for family in FAMILIES {
        let own = of_family(addresses, family);
        if own.is_empty() {
            continue;
        }
        if !wants_chains(call) {
            let masquerade = Masquerade::new(family, call.network, &own);
            match filter::masquerade(&masquerade, &call.owner(), &hosts(&own)) {
                Err(FilterError::Unsupported(_)) => {}
                done => {
                    done?;
                    continue;
                }
            }
        }
        let (removal, steps) = (removal(call), steps(call, family, &own));
        filter::apply_anew(family, Table::Nat, &removal, &steps)?;
    }
    Ok(())
}

/// Removes the rules of [`set_up`], of the plugin's program, or of an earlier version of this one, if they exist.
pub(super) fn tear_down(call: &Call<'_>) -> Result<(), NativeError> {
    let Some(previous) = call.previous()? else {
        return FAMILIES
            .into_iter()
            .try_for_each(|family| match tear_down_unknown(call, family) {
                // A kernel without IPv6 has no rules for it.
                Err(NativeError::Filter(_)) if family == Family::V6 && !has_v6() => Ok(()),
                done => done,
            });
    };
    let addresses: Vec<_> = previous.ips.iter().map(|ip| ip.address).collect();
    for family in FAMILIES {
        let own = of_family(&addresses, family);
        if own.is_empty() {
            continue;
        }
        let masquerade = Masquerade::new(family, call.network, &own);
        filter::unmasquerade(&masquerade, &call.owner(), &hosts(&own))?;
        remove_chain(call, family)?;
    }
    Ok(())
}

/// Reports whether the sets contain any address of the pod.
pub(super) fn is_by_sets(call: &Call<'_>) -> bool {
    let has = |family| filter::has_masqueraded(family, &call.owner()).unwrap_or(false);
    FAMILIES.into_iter().any(has)
}

/// Verifies that the rules of [`set_up`] exist.
pub(super) fn verify(call: &Call<'_>, addresses: &[Cidr]) -> Result<(), NativeError> {
    for family in FAMILIES {
        let own = of_family(addresses, family);
        let masquerade = Masquerade::new(family, call.network, &own);
        for address in hosts(&own) {
            let chain = chain_name("", call.network, call.container_id);
            if !filter::is_masqueraded(&masquerade, &call.owner(), address)?
                && !filter::chain_exists(family, Table::Nat, &chain)?
            {
                return Err(NativeError::Check(format!(
                    "{address} is not masqueraded: neither the set nor the chain {chain} contains it"
                )));
            }
        }
    }
    Ok(())
}

/// Reports whether the network's configuration requires rules that `iptables` shows.
fn wants_chains(call: &Call<'_>) -> bool {
    call.conf.get(BACKEND).and_then(serde_json::Value::as_str) == Some("iptables")
}

fn of_family(addresses: &[Cidr], family: Family) -> Vec<Cidr> {
    let mut own = addresses.to_vec();
    own.retain(|address| Family::of(address.address()) == family);
    own
}

fn hosts(addresses: &[Cidr]) -> Vec<IpAddr> {
    addresses.iter().map(Cidr::address).collect()
}

fn has_v6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}

fn tear_down_unknown(call: &Call<'_>, family: Family) -> Result<(), NativeError> {
    filter::unmasquerade_all(family, &call.owner())?;
    remove_chain(call, family)
}

fn remove_chain(call: &Call<'_>, family: Family) -> Result<(), NativeError> {
    Ok(filter::apply(family, Table::Nat, &removal(call))?)
}

fn removal(call: &Call<'_>) -> [Step; 1] {
    let chain = chain_name("", call.network, call.container_id);
    [Step::RemoveChain {
        chain,
        jumps_in: vec![FROM.to_owned()],
    }]
}

fn steps(call: &Call<'_>, family: Family, addresses: &[Cidr]) -> Vec<Step> {
    let chain = chain_name("", call.network, call.container_id);
    let comment = || comment(call);
    // Multicast is excluded: 224.0.0.0/4 and ff00::/8.
    let multicast = match family {
        Family::V4 => Cidr::new(IpAddr::from([224, 0, 0, 0]), 4),
        Family::V6 => Cidr::new(IpAddr::from([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8),
    };
    let mut steps = vec![
        Step::Chain(SHARED.to_owned()),
        Step::OnlyRule(SHARED.to_owned(), Rule::new([], Target::Masquerade)),
        Step::NewChain(chain.clone()),
    ];
    for address in addresses {
        steps.push(Step::Append(
            chain.clone(),
            Rule::new(
                [Match::Destination(address.network()), comment()],
                Target::Accept,
            ),
        ));
    }
    let outside = multicast
        .map(Match::NotDestination)
        .into_iter()
        .chain([comment()]);
    steps.push(Step::Append(
        chain.clone(),
        Rule::new(outside.collect::<Vec<_>>(), Target::Jump(SHARED.to_owned())),
    ));
    for address in addresses {
        let from = Match::Source(Cidr::host(address.address()));
        steps.push(Step::Append(
            FROM.to_owned(),
            Rule::new([from, comment()], Target::Jump(chain.clone())),
        ));
    }
    steps
}

fn comment(call: &Call<'_>) -> Match {
    Match::Comment(format!(
        "name: {:?} id: {:?}",
        call.network, call.container_id
    ))
}
