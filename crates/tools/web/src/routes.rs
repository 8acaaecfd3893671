//! Routes from paths to handlers.

use http::request::Parts;
use http::{Method, StatusCode};

use crate::access::Access;
use crate::answer::{self, Answer};
use crate::node::Node;
use crate::query::Query;
use crate::{logs, page, view};

/// Handles a request.
pub(crate) async fn answer(node: &Node, head: &Parts) -> Answer {
    let path = head.uri.path();
    let is_api = path.starts_with("/api/");
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let mut answer = answer::failure(
            StatusCode::METHOD_NOT_ALLOWED,
            "this server is read-only; only GET and HEAD are allowed",
        );
        let allowed = http::HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(http::header::ALLOW, allowed);
        return answer;
    }
    if let Err(refusal) = node.access.check_site(&head.uri, &head.headers) {
        return refusal.answer(is_api);
    }
    let query = Query::read(head.uri.query());
    if let Some(token) = query.get("token").filter(|_| path == "/") {
        return match node.access.login(token).await {
            Ok(cookie) => answer::welcome(cookie, Access::check_api(&head.headers).is_err()),
            Err(refusal) => refusal.answer(false),
        };
    }
    if is_api && let Err(refusal) = Access::check_api(&head.headers) {
        return refusal.answer(true);
    }
    if let Err(refusal) = node.access.check_session(&head.headers).await {
        return refusal.answer(is_api);
    }
    match path.strip_prefix("/api/") {
        Some(rest) => api(node, head, rest, &query).await,
        None => of_page(path, head),
    }
}

fn of_page(path: &str, head: &Parts) -> Answer {
    let name = match path.strip_prefix("/app/") {
        Some(name) => name,
        // The URL of a view, which can be shared.
        None if !path.contains('.') => page::INDEX,
        None => "",
    };
    match page::file(name) {
        Some(file) => answer::file(file, &head.headers),
        None => answer::words(StatusCode::NOT_FOUND, "file not found"),
    }
}

async fn api(node: &Node, head: &Parts, path: &str, query: &Query) -> Answer {
    let parts: Vec<&str> = path.split('/').collect();
    let told = match *parts {
        ["live"] => return node.hub.open(head.method == Method::HEAD),
        ["logs"] => return logs::open(node, query, head.method == Method::HEAD),
        ["pod", id] => view::pod(&node.cri, id).await,
        ["pod", _, "environment"] if !node.shows_environment => {
            return answer::failure(
                StatusCode::FORBIDDEN,
                "environment variables may contain secrets and are hidden; start the server with \
                 --show-environment",
            );
        }
        ["pod", id, "environment"] => {
            let container = query.get("container").unwrap_or_default();
            view::environment(&node.cri, id, container).await
        }
        ["traces"] => view::traces(&node.cri, query).await,
        ["images"] => view::images(&node.cri).await,
        ["networks"] => view::networks(&node.cri).await,
        ["settings"] => view::settings(&node.cri, node.extras.clone()).await,
        ["manifests"] => view::manifests(&node.cri, node.extras.clone()).await,
        _ => return answer::failure(StatusCode::NOT_FOUND, "unknown API path"),
    };
    match told {
        Ok(value) => answer::document(&value),
        Err(error) => error.answer(),
    }
}
