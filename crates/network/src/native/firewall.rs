//! `firewall`: packets from and to pods are let through, whatever the node's
//! own policy for forwarding.

use serde::Deserialize;

use super::NativeError;
use super::plugin::Call;
use crate::Cidr;
use crate::cni::{CniResult, Verb};
use crate::filter::{self, Family, Match, Rule, Step, Table, Target};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conf {
    #[serde(default)]
    iptables_admin_chain_name: String,
}

const FORWARD: &str = "CNI-FORWARD";
const DEFAULT_ADMIN: &str = "CNI-ADMIN";

pub(super) fn run(call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
    match call.verb {
        Verb::Add => {
            let result = call.required_previous()?;
            for family in families(&result) {
                let steps = steps(call, family, &result)?;
                filter::apply(family, Table::Filter, &steps).map_err(NativeError::from)?;
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

fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    let Some(result) = call.previous()? else {
        return Ok(());
    };
    for family in families(&result) {
        let steps: Vec<_> = of_family(&result, family)
            .map(|ip| Step::RemoveAbout {
                chain: FORWARD.to_owned(),
                address: ip.address(),
            })
            .collect();
        filter::apply(family, Table::Filter, &steps).map_err(NativeError::from)?;
    }
    Ok(())
}

fn steps(call: &Call<'_>, family: Family, result: &CniResult) -> Result<Vec<Step>, NativeError> {
    let conf: Conf = call.conf()?;
    let admin = match conf.iptables_admin_chain_name.as_str() {
        "" => DEFAULT_ADMIN.to_owned(),
        name => name.to_owned(),
    };
    let jump = |chain: &str, why: &str, to: &str| Step::JumpOnce {
        chain: chain.to_owned(),
        rule: Rule::new(
            [Match::Comment(why.to_owned())],
            Target::Jump(to.to_owned()),
        ),
        first: true,
    };
    let mut steps = vec![
        Step::Chain(FORWARD.to_owned()),
        Step::Chain(admin.clone()),
        jump("FORWARD", "CNI firewall plugin rules", FORWARD),
        jump(FORWARD, "CNI firewall plugin admin overrides", &admin),
    ];
    for address in of_family(result, family) {
        let host = Cidr::host(address.address());
        let chain = FORWARD.to_owned();
        // Those of an earlier owner, if a crash left them.
        steps.push(Step::RemoveAbout {
            chain: chain.clone(),
            address: address.address(),
        });
        let answers = Rule::new(
            [Match::Destination(host), Match::Established],
            Target::Accept,
        );
        steps.push(Step::Append(chain.clone(), answers));
        steps.push(Step::Append(
            chain,
            Rule::new([Match::Source(host)], Target::Accept),
        ));
    }
    Ok(steps)
}

fn families(result: &CniResult) -> impl Iterator<Item = Family> {
    [Family::V4, Family::V6]
        .into_iter()
        .filter(|family| of_family(result, *family).next().is_some())
}

fn of_family(result: &CniResult, family: Family) -> impl Iterator<Item = Cidr> {
    result
        .ips
        .iter()
        .map(|ip| ip.address)
        .filter(move |address| Family::of(address.address()) == family)
}
