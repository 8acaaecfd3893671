//! Checks with the gRPC health protocol.

use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;

/// Requests the health of a service from a gRPC server.
pub(crate) async fn grpc_health(
    host: &str,
    port: u16,
    service: &str,
    limit: Duration,
) -> Result<(), String> {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let address = format!("{host}:{port}");
    let ask = async {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| e.to_string())?
            .user_agent("kube-probe/1.0")
            .map_err(|e| e.to_string())?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|e| format!("failed to connect service {address:?}: {e}"))?;
        let mut client = Grpc::new(channel).max_decoding_message_size(64 * 1024);
        client.ready().await.map_err(|e| e.to_string())?;
        let request = tonic::Request::new(HealthCheckRequest {
            service: service.to_owned(),
        });
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let answer = client.unary(request, path, codec).await;
        match answer {
            Ok(answer) if answer.get_ref().status == SERVING => Ok(()),
            Ok(answer) => Err(format!(
                "service unhealthy (responded with status {})",
                answer.get_ref().status
            )),
            Err(status) => Err(format!("health rpc failed: {status}")),
        }
    };
    tokio::time::timeout(limit, ask).await.unwrap_or_else(|_| {
        Err(format!(
            "timeout: health rpc did not complete within {limit:?}"
        ))
    })
}
