//! Registration of a plugin on a socket: it sends its name, is configured, and subscribes to events.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connection::{CallError, Connection, Serve, Side, Status, StatusCode};
use crate::event::Events;
use crate::nri::Nri;
use crate::plugin::{Identity, Origin, Plugin, SERVICE, VERSION, check_index, check_name};
use crate::v1alpha1::{
    ConfigureRequest, ConfigureResponse, RegisterPluginRequest, UpdateContainersRequest,
    UpdateContainersResponse,
};

/// Name of the service that the runtime implements.
pub(crate) const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// Identity and configuration of a plugin that the runtime started.
#[derive(Debug, Clone)]
pub(crate) struct Launched {
    pub(crate) index: String,
    pub(crate) name: String,
    pub(crate) config: String,
    pub(crate) pid: Option<u32>,
}

/// Registers the plugin on a connection, and configures it.
pub(crate) async fn register(
    nri: &Nri,
    socket: UnixStream,
    launched: Option<Launched>,
) -> Result<Plugin, String> {
    let peer = socket.peer_cred().ok().and_then(|peer| peer.pid());
    let peer = peer.and_then(|pid| u32::try_from(pid).ok());
    let (tell, registered) = oneshot::channel();
    let desk = Arc::new(Desk {
        nri: nri.clone(),
        tell: Mutex::new(Some(tell)),
        plugin: OnceLock::new(),
        launched: launched.is_some(),
    });
    let connection = Connection::open(socket, Side::Runtime, Arc::clone(&desk) as Arc<dyn Serve>);
    let closing = CloseOnDrop(Some(connection.clone()));
    let config = nri.config().ok_or("NRI is disabled")?;
    let limit = config.registration_timeout;
    let said = tokio::select! {
        said = timeout(limit, registered) => said,
        reason = connection.closed() => return Err(format!("it disconnected before it registered: {reason}")),
    };
    let said = said
        .map_err(|_| format!("it did not register within {limit:?}"))?
        .map_err(|_| "it disconnected before it registered".to_owned())?;
    let version = said.nri_version;
    let (identity, text, origin) = if let Some(own) = launched {
        let identity = Identity {
            index: own.index,
            name: own.name,
            version,
        };
        (identity, own.config, (Origin::Launched, own.pid))
    } else {
        let identity = Identity {
            index: said.plugin_idx,
            name: said.plugin_name,
            version,
        };
        (identity, String::new(), (Origin::External, peer))
    };
    let _ = desk.plugin.set(identity.full());
    let events = configure(nri, &connection, text, config.request_timeout).await;
    let events = events.map_err(|error| format!("configuring {}: {error}", identity.full()))?;
    closing.keep();
    Ok(Plugin::new(
        identity,
        origin,
        events,
        connection,
        config.request_timeout,
        nri.metrics().clone(),
    ))
}

async fn configure(
    nri: &Nri,
    connection: &Connection,
    config: String,
    limit: Duration,
) -> Result<Events, String> {
    let own = nri.config().ok_or("NRI is disabled")?;
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let request = ConfigureRequest {
        config,
        runtime_name: own.runtime.0.clone(),
        runtime_version: own.runtime.1.clone(),
        registration_timeout: millis(own.registration_timeout),
        request_timeout: millis(own.request_timeout),
        nri_version: VERSION.to_owned(),
    };
    let answer = connection.call(SERVICE, "Configure", request.encode_to_vec(), limit);
    let answer = answer.await.map_err(|error| error.to_string())?;
    let answer = ConfigureResponse::decode(answer)
        .map_err(|error| CallError::Rubbish(error.to_string()).to_string())?;
    Events::of_subscription(answer.events).ok_or_else(|| {
        format!(
            "it subscribes to unknown events ({:#x}); it may be newer than {VERSION}",
            answer.events
        )
    })
}

/// Handler of a plugin's calls.
struct Desk {
    nri: Nri,
    tell: Mutex<Option<oneshot::Sender<RegisterPluginRequest>>>,
    /// Full name of the plugin, set once it is registered.
    plugin: OnceLock<String>,
    /// Whether the runtime started the plugin, which then cannot choose its name.
    launched: bool,
}

impl Serve for Desk {
    fn serve(
        &self,
        service: String,
        method: String,
        payload: Bytes,
    ) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(async move {
            match (service.as_str(), method.as_str()) {
                (RUNTIME_SERVICE, "RegisterPlugin") => self.register(payload),
                (RUNTIME_SERVICE, "UpdateContainers") => self.update(payload).await,
                _ => Err(Status::unimplemented(&service, &method)),
            }
        })
    }
}

impl Desk {
    fn register(&self, payload: Bytes) -> Result<Vec<u8>, Status> {
        let request = decode::<RegisterPluginRequest>(payload)?;
        if !self.launched {
            let checked =
                check_index(&request.plugin_idx).and_then(|()| check_name(&request.plugin_name));
            checked.map_err(|problem| Status::new(StatusCode::InvalidArgument, problem))?;
        }
        let tell = self.tell.lock().take();
        let Some(tell) = tell else {
            let problem = "this connection is already registered";
            return Err(Status::new(StatusCode::InvalidArgument, problem));
        };
        let _ = tell.send(request);
        Ok(Vec::new())
    }

    async fn update(&self, payload: Bytes) -> Result<Vec<u8>, Status> {
        let Some(plugin) = self.plugin.get() else {
            let problem = "register first";
            return Err(Status::new(StatusCode::InvalidArgument, problem));
        };
        let request = decode::<UpdateContainersRequest>(payload)?;
        let failed = self
            .nri
            .unsolicited(plugin, request.update, request.evict)
            .await;
        Ok(UpdateContainersResponse { failed }.encode_to_vec())
    }
}

fn decode<T: prost::Message + Default>(payload: Bytes) -> Result<T, Status> {
    T::decode(payload).map_err(|error| Status::new(StatusCode::InvalidArgument, error.to_string()))
}

/// Guard that closes the connection of a plugin whose registration failed.
struct CloseOnDrop(Option<Connection>);

impl CloseOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.close("the registration failed");
        }
    }
}
