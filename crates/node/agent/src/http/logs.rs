//! `/containerLogs`: the logs of containers.

use std::io;

use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use orlop_cri_api::log::Stream;
use orlop_kubelet_rules::Timestamp;
use orlop_kuberuntime::manager::{LogQuery, PodView};

use super::answer::{self, Answer};
use super::query::Query;
use crate::shared::{Shared, now};

pub(super) async fn answer(
    shared: &Shared,
    pod: &PodView,
    container: &str,
    query: &Query,
) -> Answer {
    let wanted = match read(query) {
        Ok(wanted) => wanted,
        Err(why) => return answer::text(StatusCode::BAD_REQUEST, why),
    };
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut all = lists
        .iter()
        .flat_map(|list| pod.manifest["spec"][*list].as_array().into_iter().flatten());
    if !all.any(|it| it["name"] == container) {
        let text = format!("container {container:?} not found in pod {:?}\n", pod.name);
        return answer::text(StatusCode::NOT_FOUND, text);
    }
    let manager = shared.manager();
    let reader = match manager.container_logs(&pod.uid, container, wanted).await {
        Ok(reader) => reader,
        Err(error) => return answer::failure(&error),
    };
    let parts = stream::unfold(reader, |mut reader| async move {
        let part = reader.next().await?;
        let part = part.map(Frame::data).map_err(io::Error::other);
        Some((part, reader))
    });
    let mut answer = Response::new(StreamBody::new(parts).boxed_unsync());
    let plain = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

fn read(query: &Query) -> Result<LogQuery, String> {
    let since_seconds: Option<u64> = query.number("sinceSeconds")?;
    let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
    if since_seconds.is_some() && since_time.is_some() {
        return Err("at most one of `sinceTime` or `sinceSeconds` may be specified\n".to_owned());
    }
    let since = match (since_seconds, since_time) {
        (Some(0), _) => return Err("sinceSeconds must be greater than 0\n".to_owned()),
        (Some(seconds), _) => {
            let nanos = i64::try_from(seconds)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000_000);
            Some(Timestamp(now().0.saturating_sub(nanos)))
        }
        (None, Some(text)) => {
            let at: jiff::Timestamp = text
                .parse()
                .map_err(|_| format!("sinceTime must be an RFC 3339 time, not {text:?}\n"))?;
            Some(Timestamp(i64::try_from(at.as_nanosecond()).unwrap_or(0)))
        }
        (None, None) => None,
    };
    // `all` means no limit.
    let tail_lines = match query.get("tailLines") {
        Some("all") => None,
        _ => query.number("tailLines")?,
    };
    let limit_bytes: Option<u64> = query.number("limitBytes")?;
    if limit_bytes == Some(0) {
        return Err("limitBytes must be greater than 0\n".to_owned());
    }
    let stream = match query.get("stream") {
        None | Some("" | "All") => None,
        Some("Stdout") => Some(Stream::Stdout),
        Some("Stderr") => Some(Stream::Stderr),
        Some(other) => {
            return Err(format!(
                "stream must be All, Stdout or Stderr, not {other:?}\n"
            ));
        }
    };
    if stream.is_some() && tail_lines.is_some() {
        return Err(
            "`tailLines` and a specific `stream` are mutually exclusive for now\n".to_owned(),
        );
    }
    Ok(LogQuery {
        follow: query.is_true(&["follow"]),
        previous: query.is_true(&["previous"]),
        timestamps: query.is_true(&["timestamps"]),
        since,
        tail_lines,
        limit_bytes,
        stream,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_the_kubelet_reads_them() {
        let of = |text: &str| read(&Query::read(Some(text)));
        let all = of("follow=true&previous=1&timestamps=true&tailLines=5&limitBytes=9").unwrap();
        assert!(all.follow && all.previous && all.timestamps);
        assert_eq!((all.tail_lines, all.limit_bytes), (Some(5), Some(9)));
        let since = of("sinceTime=2030-01-02T03:04:05Z").unwrap().since;
        assert_eq!(since, Some(Timestamp::from_secs(1_893_553_445)));
        assert!(of("sinceSeconds=10").unwrap().since.unwrap() < now());
        assert_eq!(of("tailLines=all").unwrap().tail_lines, None);
        for wrong in [
            "tailLines=-1",
            "tailLines=x",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceTime=now",
            "sinceSeconds=1&sinceTime=2030-01-02T03:04:05Z",
            "stream=Both",
            "stream=Stdout&tailLines=1",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
