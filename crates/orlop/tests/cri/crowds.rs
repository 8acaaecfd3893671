//! Many pods at once.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};

use crate::world::world;

/// How many pods come up side by side; `ORLOP_NETWORK_PODS=200` for the long form.
fn pods() -> usize {
    let wanted = std::env::var("ORLOP_NETWORK_PODS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(24)
}

#[tokio::test]
async fn pods_that_come_up_side_by_side_have_addresses_of_their_own() {
    let world = world!();
    let specs = (0..pods()).map(|n| world.node.pod(&format!("crowd-{n}")).own_network());
    let ups = specs.map(|pod| {
        let cri = world.cri.clone();
        async move {
            let id = cri.run_pod(&pod).await?;
            let status = cri.pod_status(&id).await?;
            Ok::<_, tonic::Status>((id, status.network.unwrap_or_default().ip))
        }
    });
    let ups: Vec<_> = stream::iter(ups).buffer_unordered(pods()).collect().await;
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for up in ups {
        let (id, address) = up.expect("a pod comes up");
        assert!(!address.is_empty(), "pod {id} has no address");
        let other = owners.insert(address.clone(), id.clone());
        assert_eq!(other, None, "{id} has the address {address}, too");
    }
    assert_eq!(owners.len(), pods());
    // They go side by side, too, and their addresses can be had again.
    let downs = owners.values().map(|id| {
        let cri = world.cri.clone();
        async move {
            cri.stop_pod(id).await?;
            cri.remove_pod(id).await
        }
    });
    let downs: Vec<_> = stream::iter(downs).buffer_unordered(pods()).collect().await;
    for down in downs {
        down.expect("a pod goes");
    }
    let store = world.node.scratch().path("ipam").join(world.node.id());
    let held = std::fs::read_dir(store).expect("the addresses").flatten();
    let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
    let held: Vec<_> = held
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_address(name))
        .collect();
    assert_eq!(held, [""; 0], "addresses are still taken");
    world.finish().await;
}
