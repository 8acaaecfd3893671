//! `firewall`: accepts packets from and to pods, whatever the node's forwarding policy.

use std::net::IpAddr;

use serde::Deserialize;

use super::call::Call;
use crate::Cidr;
use crate::cni::{CniResult, Verb};
use crate::error::NativeError;
use crate::filter::{self, Family, Match, Noted, Rule, Step, Table, Target};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(default)]
    iptables_admin_chain_name: String,
}

const FORWARD: &str = "CNI-FORWARD";
const DEFAULT_ADMIN: &str = "CNI-ADMIN";

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    let owner = call.owner();
    match call.verb {
        Verb::Add => {
            let result = call.required_previous()?;
            for ip in &result.ips {
                let address = ip.address.address();
                filter::add_noted(&noted(&owner, address), &frame(call)?, &rules(address))?;
            }
            Ok(Some(result))
        }
        Verb::Del => delete(call).map(|()| None),
        Verb::Check => {
            for family in families(&call.required_previous()?) {
                if !filter::chain_exists(family, Table::Filter, FORWARD)
                    .map_err(NativeError::from)?
                {
                    return Err(NativeError::Check(format!(
                        "the chain {FORWARD} is missing"
                    )));
                }
            }
            Ok(None)
        }
        Verb::Status | Verb::Gc => Ok(None),
    }
}

/// Reports whether any of the pod's rules have a note, which the plugin's program does not read.
pub(super) fn is_noted(call: &Call<'_>) -> bool {
    let Ok(Some(result)) = call.previous() else {
        return false;
    };
    let owner = call.owner();
    let mut addresses = result.ips.iter().map(|ip| ip.address.address());
    addresses.any(|address| filter::has_noted(&noted(&owner, address)).unwrap_or(false))
}

fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let Some(result) = call.previous()? else {
        return Ok(());
    };
    let owner = call.owner();
    for ip in &result.ips {
        let noted = noted(&owner, ip.address.address());
        filter::remove_noted(&noted).map_err(NativeError::from)?;
    }
    Ok(())
}

/// Builds the steps that create the chains and the jumps to them.
fn frame(call: &Call<'_>) -> Result<Vec<Step>, NativeError> {
    let conf: Conf = call.conf()?;
    let admin = match conf.iptables_admin_chain_name.as_str() {
        "" => DEFAULT_ADMIN.to_owned(),
        name => name.to_owned(),
    };
    let jump = |why: &str, to: &str| {
        Rule::new(
            [Match::Comment(why.to_owned())],
            Target::Jump(to.to_owned()),
        )
    };
    Ok(vec![
        Step::Chain(FORWARD.to_owned()),
        Step::Chain(admin.clone()),
        Step::JumpOnce {
            chain: "FORWARD".to_owned(),
            rule: jump("CNI firewall plugin rules", FORWARD),
            first: true,
        },
        Step::Reach {
            chain: FORWARD.to_owned(),
            rule: jump("CNI firewall plugin admin overrides", &admin),
        },
    ])
}

/// Returns the rules that accept packets from an address, and the answers to them.
fn rules(address: IpAddr) -> [Rule; 2] {
    let host = Cidr::host(address);
    [
        Rule::new(
            [Match::Destination(host), Match::Established],
            Target::Accept,
        ),
        Rule::new([Match::Source(host)], Target::Accept),
    ]
}

fn noted(owner: &str, address: IpAddr) -> Noted<'_> {
    Noted {
        table: Table::Filter,
        chain: FORWARD,
        owner,
        address,
    }
}

fn families(result: &CniResult) -> impl Iterator<Item = Family> {
    let has = |family| {
        let mut ips = result.ips.iter();
        ips.any(|ip| Family::of(ip.address.address()) == family)
    };
    [Family::V4, Family::V6]
        .into_iter()
        .filter(move |family| has(*family))
}
