//! The client of the service `orlop.v1.Images`.

use orlop_cri_api::images::images_client::ImagesClient;
use tonic::transport::Channel;

use crate::connect::Session;

/// Creates a client of orlop's own service. Calls have no deadline, as an archive may take long.
pub(super) async fn client(session: &Session) -> anyhow::Result<ImagesClient<Channel>> {
    let connection = session.patient_image_connection().await?;
    Ok(connection.orlop_images())
}
