//! Pods' packets to the outside under the node's address.

use std::net::IpAddr;

use super::NativeError;
use super::plugin::Call;
use crate::Cidr;
use crate::filter::{self, Family, FilterError, Match, Rule, Step, Table, Target, chain_name};

/// Where the jump to a pod's own chain is.
const FROM: &str = "POSTROUTING";

/// The one chain that masquerades. In every pod's own chain the rule would
/// make the next pod wait: the kernel makes no target of this kind before it
/// has got rid of those removed last, which takes 20 ms.
const SHARED: &str = "CNI-MASQUERADE";

/// Masquerades what `addresses` send to anywhere but their own networks.
pub(super) fn set_up(call: &Call<'_>, addresses: &[Cidr]) -> Result<(), NativeError> {
    for family in [Family::V4, Family::V6] {
        let own: Vec<Cidr> = addresses
            .iter()
            .filter(|address| Family::of(address.address()) == family)
            .copied()
            .collect();
        if own.is_empty() {
            continue;
        }
        let steps = steps(call, family, &own);
        match filter::apply(family, Table::Nat, &steps) {
            // Left over by a crash: replaced.
            Err(FilterError::Exists) => {
                tear_down_family(call, family)?;
                filter::apply(family, Table::Nat, &steps)?;
            }
            done => done?,
        }
    }
    Ok(())
}

/// Removes what [`set_up`] made, if it is there.
pub(super) fn tear_down(call: &Call<'_>) -> Result<(), NativeError> {
    if let Some(previous) = call.previous()? {
        let families = [Family::V4, Family::V6].into_iter().filter(|family| {
            previous
                .ips
                .iter()
                .any(|ip| Family::of(ip.address.address()) == *family)
        });
        return families
            .into_iter()
            .try_for_each(|family| tear_down_family(call, family));
    }
    tear_down_family(call, Family::V4)?;
    match tear_down_family(call, Family::V6) {
        // A kernel without IPv6 has no rules for it.
        Err(NativeError::Filter(_)) if !std::path::Path::new("/proc/net/if_inet6").exists() => {
            Ok(())
        }
        done => done,
    }
}

/// Whether what [`set_up`] made is there.
pub(super) fn verify(call: &Call<'_>, addresses: &[Cidr]) -> Result<(), NativeError> {
    for address in addresses {
        let chain = chain_name("", call.network, call.container_id);
        let family = Family::of(address.address());
        if !filter::chain_exists(family, Table::Nat, &chain)? {
            return Err(NativeError::Check(format!(
                "the masquerading chain {chain} is missing"
            )));
        }
    }
    Ok(())
}

fn tear_down_family(call: &Call<'_>, family: Family) -> Result<(), NativeError> {
    let chain = chain_name("", call.network, call.container_id);
    let steps = [Step::RemoveChain {
        chain,
        jumps_in: vec![FROM.to_owned()],
    }];
    Ok(filter::apply(family, Table::Nat, &steps)?)
}

fn steps(call: &Call<'_>, family: Family, addresses: &[Cidr]) -> Vec<Step> {
    let chain = chain_name("", call.network, call.container_id);
    let comment = || comment(call);
    // Not what goes to many: 224.0.0.0/4 and ff00::/8.
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
