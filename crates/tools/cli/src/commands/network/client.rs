//! The client of the service `orlop.v1.Networks`.

use orlop_cri_api::extensions::networks_client::NetworksClient;
use tonic::transport::Channel;

use crate::connect::Session;

pub(super) async fn client(session: &Session) -> anyhow::Result<NetworksClient<Channel>> {
    Ok(session.patient_connection().await?.orlop_networks())
}
