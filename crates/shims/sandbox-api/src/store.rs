//! `containerd.services.sandbox.v1.Store`: sandbox descriptions stored by containerd's clients.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use orlop_containerd_api::services::sandbox::{
    StoreCreateRequest, StoreCreateResponse, StoreDeleteRequest, StoreGetRequest, StoreGetResponse,
    StoreListRequest, StoreListResponse, StoreUpdateRequest, StoreUpdateResponse,
};
use orlop_containerd_api::types::Sandbox;
use orlop_containerd_api::{Message, Timestamp};
use orlop_fs::{Outlives, SMALL_FILE, write_file, write_new_file};
use tonic::{Request, Response, Status};

use crate::names::checked;
use crate::parts;
use crate::server::store_server;

/// Maximum number of descriptions in a namespace.
const MOST: usize = 10_000;
/// The fields of a description that an update may change.
const FIELDS: [&str; 5] = ["runtime", "spec", "labels", "extensions", "sandboxer"];

/// Stores descriptions of sandboxes.
#[derive(Clone, Debug)]
pub struct Store(Arc<Path>);

impl Store {
    /// Opens a store below a directory.
    pub fn new(dir: &Path) -> Self {
        Self(dir.into())
    }

    fn place(&self, namespace: &str, id: &str) -> Result<PathBuf, Status> {
        Ok(self.0.join(checked(namespace)?).join(checked(id)?))
    }
}

#[tonic::async_trait]
impl store_server::Store for Store {
    async fn create(
        &self,
        request: Request<StoreCreateRequest>,
    ) -> Result<Response<StoreCreateResponse>, Status> {
        self.answer(request, create).await
    }

    async fn update(
        &self,
        request: Request<StoreUpdateRequest>,
    ) -> Result<Response<StoreUpdateResponse>, Status> {
        self.answer(request, update).await
    }

    async fn delete(&self, request: Request<StoreDeleteRequest>) -> Result<Response<()>, Status> {
        self.answer(request, delete).await
    }

    async fn list(
        &self,
        request: Request<StoreListRequest>,
    ) -> Result<Response<StoreListResponse>, Status> {
        self.answer(request, list).await
    }

    async fn get(
        &self,
        request: Request<StoreGetRequest>,
    ) -> Result<Response<StoreGetResponse>, Status> {
        self.answer(request, get).await
    }
}

impl Store {
    /// Runs a method on a thread that may block.
    async fn answer<Q: Send + 'static, R: Send + 'static>(
        &self,
        request: Request<Q>,
        method: fn(&Self, &str, Q) -> Result<R, Status>,
    ) -> Result<Response<R>, Status> {
        let store = self.clone();
        let (namespace, request) = parts(request);
        let answered = orlop_pool::blocking(move || method(&store, &namespace, request)).await;
        let answered = answered.map_err(|_| Status::internal("the sandbox store panicked"))?;
        answered.map(Response::new)
    }
}

fn given(sandbox: Option<Sandbox>) -> Result<Sandbox, Status> {
    sandbox.ok_or_else(|| Status::invalid_argument("the description of the sandbox is missing"))
}

fn create(
    store: &Store,
    namespace: &str,
    request: StoreCreateRequest,
) -> Result<StoreCreateResponse, Status> {
    let mut sandbox = given(request.sandbox)?;
    let path = store.place(namespace, &sandbox.sandbox_id)?;
    let mut builder = std::fs::DirBuilder::new();
    let dir = path.parent().unwrap_or(&path);
    let made = builder.mode(0o700).recursive(true).create(dir);
    made.map_err(|error| failed("creating", dir, &error))?;
    if std::fs::read_dir(dir).is_ok_and(|entries| entries.count() >= MOST) {
        return Err(Status::resource_exhausted(format!(
            "the limit of {MOST} sandboxes is reached"
        )));
    }
    sandbox.created_at = Some(now());
    sandbox.updated_at = sandbox.created_at;
    let description = sandbox.encode_to_vec();
    match write_new_file(&path, 0o600, Outlives::PowerCut, &description) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Status::already_exists(
            format!("sandbox {} already exists", sandbox.sandbox_id),
        )),
        Err(error) => Err(failed("writing", &path, &error)),
        Ok(()) => Ok(StoreCreateResponse {
            sandbox: Some(sandbox),
        }),
    }
}

fn update(
    store: &Store,
    namespace: &str,
    request: StoreUpdateRequest,
) -> Result<StoreUpdateResponse, Status> {
    let changed = given(request.sandbox)?;
    let path = store.place(namespace, &changed.sandbox_id)?;
    let mut sandbox = read(&path)?;
    let names: Vec<&str> = request.fields.iter().map(String::as_str).collect();
    for name in if names.is_empty() { &FIELDS } else { &*names } {
        match *name {
            "runtime" => sandbox.runtime.clone_from(&changed.runtime),
            "spec" => sandbox.spec.clone_from(&changed.spec),
            "labels" => sandbox.labels.clone_from(&changed.labels),
            "extensions" => sandbox.extensions.clone_from(&changed.extensions),
            "sandboxer" => sandbox.sandboxer.clone_from(&changed.sandboxer),
            _ => {
                return Err(Status::invalid_argument(format!(
                    "the field {name} of a sandbox cannot be changed"
                )));
            }
        }
    }
    sandbox.updated_at = Some(now());
    let written = write_file(&path, 0o600, Outlives::PowerCut, &sandbox.encode_to_vec());
    written.map_err(|error| failed("writing", &path, &error))?;
    Ok(StoreUpdateResponse {
        sandbox: Some(sandbox),
    })
}

fn delete(store: &Store, namespace: &str, request: StoreDeleteRequest) -> Result<(), Status> {
    let path = store.place(namespace, &request.sandbox_id)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone(&path)),
        removed => removed.map_err(|error| failed("removing", &path, &error)),
    }
}

fn get(
    store: &Store,
    namespace: &str,
    request: StoreGetRequest,
) -> Result<StoreGetResponse, Status> {
    let path = store.place(namespace, &request.sandbox_id)?;
    let sandbox = Some(read(&path)?);
    Ok(StoreGetResponse { sandbox })
}

fn list(
    store: &Store,
    namespace: &str,
    request: StoreListRequest,
) -> Result<StoreListResponse, Status> {
    let filters: Vec<Filter> = request
        .filters
        .iter()
        .map(|filter| Filter::parse(filter))
        .collect::<Result<_, _>>()?;
    let dir = store.0.join(checked(namespace)?);
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries
            .map_err(|error| failed("listing", &dir, &error))?
            .flatten()
            .map(|entry| entry.path())
            .collect(),
    };
    paths.sort();
    // A file may be incomplete, or be removed meanwhile.
    let is_whole = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    };
    let kept = paths.into_iter().filter(is_whole);
    let kept = kept.filter_map(|path| read(&path).ok());
    let list = kept.filter(|sandbox| {
        filters.is_empty() || filters.iter().any(|filter| filter.matches(sandbox))
    });
    Ok(StoreListResponse {
        list: list.collect(),
    })
}

/// A filter of containerd: equations that must all hold.
#[derive(Debug, PartialEq, Eq)]
struct Filter(Vec<(String, String)>);

impl Filter {
    fn parse(text: &str) -> Result<Self, Status> {
        let equations = text.split(',').map(|equation| {
            let (name, value) = equation.split_once("==")?;
            let name = name.trim().replace('"', "");
            let is_known = name == "id" || name == "sandboxer" || name.starts_with("labels.");
            is_known.then(|| (name, value.trim().trim_matches('"').to_owned()))
        });
        let equations: Option<_> = equations.collect();
        equations.map(Self).ok_or_else(|| {
            Status::invalid_argument(format!(
                "cannot parse the filter {text}; use id, sandboxer or labels.NAME with =="
            ))
        })
    }

    fn matches(&self, sandbox: &Sandbox) -> bool {
        self.0
            .iter()
            .all(|(name, value)| match name.strip_prefix("labels.") {
                None if name == "id" => sandbox.sandbox_id == *value,
                None => sandbox.sandboxer == *value,
                Some(label) => sandbox.labels.get(label) == Some(value),
            })
    }
}

fn read(path: &Path) -> Result<Sandbox, Status> {
    let description =
        orlop_fs::read_file(path, SMALL_FILE).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => gone(path),
            _ => failed("reading", path, &error),
        })?;
    Sandbox::decode(&*description).map_err(|error| failed("reading", path, &error.into()))
}

fn now() -> Timestamp {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_nanos(now.as_nanos() as u64)
}

fn gone(path: &Path) -> Status {
    let id = path.file_name().unwrap_or_default().display();
    Status::not_found(format!("sandbox {id} not found"))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Status {
    Status::internal(format!("{doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::services::sandbox::{
        StoreCreateRequest, StoreDeleteRequest, StoreGetRequest, StoreListRequest,
        StoreUpdateRequest,
    };
    use orlop_containerd_api::types::Sandbox;
    use tonic::Code;

    use super::{Filter, Store, create, delete, get, list, update};

    fn sandbox(id: &str, label: &str) -> Option<Sandbox> {
        Some(Sandbox {
            sandbox_id: id.into(),
            labels: [("app".to_owned(), label.to_owned())].into(),
            sandboxer: "orlop".into(),
            ..Sandbox::default()
        })
    }

    fn ask(id: &str, label: &str) -> StoreCreateRequest {
        StoreCreateRequest {
            sandbox: sandbox(id, label),
        }
    }

    fn named(id: &str) -> StoreGetRequest {
        StoreGetRequest {
            sandbox_id: id.into(),
        }
    }

    fn change(id: &str, label: &str, field: &str) -> StoreUpdateRequest {
        StoreUpdateRequest {
            sandbox: sandbox(id, label),
            fields: vec![field.into()],
        }
    }

    #[test]
    fn what_is_kept_is_found_changed_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let made = create(&store, "n", ask("a", "one")).unwrap();
        assert!(made.sandbox.unwrap().created_at.unwrap().seconds > 0);
        let again = create(&store, "n", ask("a", "two")).unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists);
        // Namespaces are separate.
        assert_eq!(
            get(&store, "m", named("a")).unwrap_err().code(),
            Code::NotFound
        );

        update(&store, "n", change("a", "two", "labels")).unwrap();
        let got = get(&store, "n", named("a")).unwrap().sandbox.unwrap();
        assert_eq!((&*got.labels["app"], &*got.sandboxer), ("two", "orlop"));
        let refused = update(&store, "n", change("a", "x", "id")).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);

        create(&store, "n", ask("b", "three")).unwrap();
        let of = |filters: &[&str]| {
            let filters = filters.iter().map(|&filter| filter.to_owned()).collect();
            let answer = list(&store, "n", StoreListRequest { filters }).unwrap();
            answer.list.len()
        };
        assert_eq!(of(&[]), 2);
        assert_eq!(of(&["labels.\"app\"==three"]), 1);
        assert_eq!(of(&["id==a,labels.app==three"]), 0);
        assert_eq!(of(&["sandboxer==orlop"]), 2);

        let sandbox_id = "a".to_owned();
        let gone = StoreDeleteRequest { sandbox_id };
        delete(&store, "n", gone.clone()).unwrap();
        assert_eq!(
            delete(&store, "n", gone).unwrap_err().code(),
            Code::NotFound
        );
    }

    #[test]
    fn names_and_filters_of_no_sense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for id in ["../a", "", "a/b"] {
            let refused = create(&store, "n", ask(id, "x")).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{id}");
        }
        assert!(create(&store, "n", StoreCreateRequest::default()).is_err());
        assert!(get(&store, "..", named("a")).is_err());
        for filter in ["id~=a", "spec==x", "id"] {
            assert!(Filter::parse(filter).is_err(), "{filter}");
        }
    }
}
