//! A fake plugin for the Node Resource Interface.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use orlop_nri::stub::{Answer, Stub};
use orlop_nri::v1alpha1::{
    ConfigureResponse, CreateContainerRequest, CreateContainerResponse, PodSandbox,
    StateChangeEvent, StopContainerRequest, StopContainerResponse, SynchronizeRequest,
    SynchronizeResponse, UpdateContainerRequest, UpdateContainerResponse,
};
use orlop_nri::{Events, Status, StatusCode, v1alpha1};
use prost::Message as _;

/// Time limit of every wait in a test.
const PATIENCE: Duration = Duration::from_secs(30);

type Hook<Q, A> = Box<dyn Fn(Q) -> A + Send + Sync>;

/// Behaviour of a plugin. By default it subscribes to all events and changes nothing.
#[derive(Default)]
pub struct Manners {
    events: Option<Events>,
    refused: Vec<&'static str>,
    hung: Vec<&'static str>,
    create: Option<Hook<CreateContainerRequest, CreateContainerResponse>>,
    update: Option<Hook<UpdateContainerRequest, UpdateContainerResponse>>,
    stop: Option<Hook<StopContainerRequest, StopContainerResponse>>,
    synchronize: Option<Hook<SynchronizeRequest, SynchronizeResponse>>,
}

/// A call to a plugin.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: String,
    /// The pod of the call.
    pub pod: PodSandbox,
    /// The container of the call.
    pub container: v1alpha1::Container,
}

/// A connected plugin.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
    stub: Stub,
}

struct Inner {
    manners: Manners,
    calls: Mutex<Vec<Call>>,
    synchronized: Mutex<Option<SynchronizeRequest>>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").finish_non_exhaustive()
    }
}

impl fmt::Debug for Manners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manners").finish_non_exhaustive()
    }
}

impl Manners {
    /// Subscribes to these events only.
    pub fn listens_to(mut self, events: Events) -> Self {
        self.events = Some(events);
        self
    }

    /// Refuses a call.
    pub fn refuses(mut self, method: &'static str) -> Self {
        self.refused.push(method);
        self
    }

    /// Never responds to a call.
    pub fn hangs_in(mut self, method: &'static str) -> Self {
        self.hung.push(method);
        self
    }

    /// Sets how it adjusts new containers.
    pub fn creates<F>(mut self, hook: F) -> Self
    where
        F: Fn(CreateContainerRequest) -> CreateContainerResponse + Send + Sync + 'static,
    {
        self.create = Some(Box::new(hook));
        self
    }

    /// Sets how it changes updates.
    pub fn updates<F>(mut self, hook: F) -> Self
    where
        F: Fn(UpdateContainerRequest) -> UpdateContainerResponse + Send + Sync + 'static,
    {
        self.update = Some(Box::new(hook));
        self
    }

    /// Sets what it does when a container has exited.
    pub fn stops<F>(mut self, hook: F) -> Self
    where
        F: Fn(StopContainerRequest) -> StopContainerResponse + Send + Sync + 'static,
    {
        self.stop = Some(Box::new(hook));
        self
    }

    /// Sets what it does with the node's state.
    pub fn synchronizes<F>(mut self, hook: F) -> Self
    where
        F: Fn(SynchronizeRequest) -> SynchronizeResponse + Send + Sync + 'static,
    {
        self.synchronize = Some(Box::new(hook));
        self
    }

    /// Connects with this index and name, and waits until the plugin is registered.
    pub async fn connect(self, socket: &Path, index: &str, name: &str) -> Plugin {
        let inner = self.inner();
        let answer = Arc::clone(&inner) as Arc<dyn Answer>;
        let stub = Stub::connect(socket, (index, name), answer).await;
        let stub = stub.unwrap_or_else(|error| panic!("registering {index}-{name}: {error}"));
        let plugin = Plugin { inner, stub };
        plugin
            .wait("to be told the node's state", |_| {
                plugin.synchronized().is_some()
            })
            .await;
        plugin
    }

    /// Connects over the inherited socket, and serves until the runtime closes it.
    pub async fn serve_inherited(self) {
        let socket = orlop_nri::spawn::inherited_socket().expect("a socket from the runtime");
        socket.set_nonblocking(true).expect("a non-blocking socket");
        let socket = tokio::net::UnixStream::from_std(socket).expect("a socket of this reactor");
        let answer = self.inner() as Arc<dyn Answer>;
        let stub = Stub::register(socket, ("00", "ignored"), answer).await;
        stub.expect("register").closed().await;
    }

    fn inner(self) -> Arc<Inner> {
        Arc::new(Inner {
            manners: self,
            calls: Mutex::default(),
            synchronized: Mutex::default(),
        })
    }
}

impl Plugin {
    /// Returns the calls so far, without those of the registration.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.inner.calls).clone()
    }

    /// Returns the methods of the calls for one container, in order.
    pub fn methods_about(&self, container: &str) -> Vec<String> {
        let calls = self.calls().into_iter();
        let own = calls.filter(|call| call.container.id == container);
        own.map(|call| call.method).collect()
    }

    /// Returns the initial synchronization request.
    pub fn synchronized(&self) -> Option<SynchronizeRequest> {
        lock(&self.inner.synchronized).clone()
    }

    /// Waits for a call for an object.
    pub async fn wait_for(&self, method: &str, id: &str) -> Call {
        let about =
            |call: &Call| call.method == method && (call.container.id == id || call.pod.id == id);
        self.wait(&format!("for {method} about {id}"), |calls| {
            calls.iter().any(about)
        })
        .await;
        self.calls().into_iter().find(about).expect("it came")
    }

    /// Returns the connection to the runtime, for unsolicited updates.
    pub fn stub(&self) -> &Stub {
        &self.stub
    }

    /// Disconnects.
    pub fn leave(&self) {
        self.stub.close();
    }

    async fn wait(&self, what: &str, mut until: impl FnMut(&[Call]) -> bool) {
        crate::wait_until!(
            PATIENCE,
            until(&self.calls()),
            "waiting {what}: {:?}",
            self.calls()
        );
    }
}

impl Answer for Inner {
    fn answer(
        &self,
        method: String,
        request: bytes::Bytes,
    ) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(async move {
            let manners = &self.manners;
            match method.as_str() {
                "Configure" => {
                    let events = manners.events.unwrap_or(Events::ALL).bits();
                    return Ok(ConfigureResponse { events }.encode_to_vec());
                }
                "Shutdown" => return Ok(Vec::new()),
                _ => {}
            }
            if method != "Synchronize" {
                self.note(&method, &request);
            }
            if manners.hung.contains(&method.as_str()) {
                std::future::pending::<()>().await;
            }
            if manners.refused.contains(&method.as_str()) {
                let text = format!("the test refuses {method}");
                return Err(Status::new(StatusCode::Unknown, text));
            }
            Ok(match (method.as_str(), manners) {
                ("Synchronize", _) => self.synchronize(decode(request)),
                (
                    "CreateContainer",
                    Manners {
                        create: Some(hook), ..
                    },
                ) => hook(decode(request)).encode_to_vec(),
                (
                    "UpdateContainer",
                    Manners {
                        update: Some(hook), ..
                    },
                ) => hook(decode(request)).encode_to_vec(),
                (
                    "StopContainer",
                    Manners {
                        stop: Some(hook), ..
                    },
                ) => hook(decode(request)).encode_to_vec(),
                _ => Vec::new(),
            })
        })
    }
}

impl Inner {
    fn synchronize(&self, request: SynchronizeRequest) -> Vec<u8> {
        let more = request.more;
        let whole = {
            let mut known = lock(&self.synchronized);
            let mut whole = known.take().unwrap_or_default();
            whole.pods.extend(request.pods);
            whole.containers.extend(request.containers);
            known.insert(whole).clone()
        };
        let answer = match &self.manners.synchronize {
            Some(hook) if !more => hook(whole),
            _ => SynchronizeResponse::default(),
        };
        SynchronizeResponse { more, ..answer }.encode_to_vec()
    }

    /// Records a call. All requests have the pod as first field and the container as second, except the one that starts
    /// with the event type.
    fn note(&self, method: &str, request: &bytes::Bytes) {
        let (pod, container) = if method == "StateChange" {
            let change: StateChangeEvent = decode(request.clone());
            (change.pod, change.container)
        } else if method.contains("Container") {
            let request: v1alpha1::StartContainerRequest = decode(request.clone());
            (request.pod, request.container)
        } else {
            let request: v1alpha1::RunPodSandboxRequest = decode(request.clone());
            (request.pod, None)
        };
        lock(&self.calls).push(Call {
            method: method.to_owned(),
            pod: pod.unwrap_or_default(),
            container: container.unwrap_or_default(),
        });
    }
}

fn decode<T: prost::Message + Default>(bytes: bytes::Bytes) -> T {
    T::decode(bytes).expect("a request that can be read")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
