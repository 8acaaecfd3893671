//! Control requests of root: apply, delete, and status.

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use orlop_streaming::read_body;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::query::Query;
use crate::shared::{Shared, event_json};
use crate::source::{Outcome, Store, StoreError};

/// Size limit of an applied text in bytes.
const LARGEST: usize = 10 << 20;

/// Handles a control request.
pub(super) async fn answer(shared: &Shared, order: &str, request: Request<Incoming>) -> Answer {
    let query = Query::read(request.uri().query());
    match (order, request.method().clone()) {
        ("status", Method::GET) => answer::json(&shared.status()),
        ("events", Method::GET) => {
            let events = shared.events();
            let events: Vec<Value> = events.iter().map(|event| event_json(event)).collect();
            answer::json(&json!({"events": events}))
        }
        ("apply", Method::POST) => {
            let origin = query.get("origin").unwrap_or("stdin").to_owned();
            match body(request).await {
                Ok(text) => work(shared, move |store| store.apply(&origin, &text)).await,
                Err(answer) => *answer,
            }
        }
        ("delete", Method::POST) => {
            if let (Some(kind), Some(name)) = (query.get("kind"), query.get("name")) {
                let namespace = query.get("namespace").unwrap_or("default");
                let (kind, namespace, name) =
                    (kind.to_owned(), namespace.to_owned(), name.to_owned());
                return work(shared, move |store| store.delete(&kind, &namespace, &name)).await;
            }
            let origin = query.get("origin").unwrap_or("stdin").to_owned();
            match body(request).await {
                Ok(text) => work(shared, move |store| store.delete_text(&origin, &text)).await,
                Err(answer) => *answer,
            }
        }
        ("status" | "events" | "apply" | "delete", _) => answer::text(
            StatusCode::METHOD_NOT_ALLOWED,
            "use GET for status and events, and POST for apply and delete\n",
        ),
        _ => answer::text(
            StatusCode::NOT_FOUND,
            "unknown endpoint; use status, events, apply or delete\n",
        ),
    }
}

async fn work(
    shared: &Shared,
    order: impl FnOnce(&mut Store) -> Result<Outcome, StoreError> + Send + 'static,
) -> Answer {
    match shared.applied().change(order).await {
        Ok(Ok(outcome)) => answer::json(&serde_json::to_value(outcome).unwrap_or_default()),
        Ok(Err(error @ StoreError::NotThere(_))) => {
            answer::text(StatusCode::NOT_FOUND, error.to_string())
        }
        Ok(Err(error)) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn body(request: Request<Incoming>) -> Result<String, Box<Answer>> {
    let refuse = |text: String| Box::new(answer::text(StatusCode::BAD_REQUEST, text));
    let bytes = read_body(request.into_body(), LARGEST)
        .await
        .map_err(|error| refuse(format!("cannot read the manifest: {error}")))?;
    String::from_utf8(bytes.into())
        .map_err(|_| refuse("the manifest is not valid UTF-8".to_owned()))
}
