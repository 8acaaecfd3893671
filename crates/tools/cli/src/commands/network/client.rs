//! The client of orlop's own calls for networks.

use orlop_cri_api::extensions::networks_client::NetworksClient;
use tonic::transport::Channel;

use crate::connect::Session;

pub(super) async fn client(session: &Session) -> anyhow::Result<NetworksClient<Channel>> {
    Ok(session.patient_connection().await?.orlop_networks())
}
