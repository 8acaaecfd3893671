//! The client against a runtime whose answers the test decides.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test may panic"
)]

mod fake;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake::{Behaviour, Running};
use orlop_cri_api::client::{
    ClientError, ClientOptions, Connection, Observer, Outcome, PullRequest, RuntimeClient,
};
use orlop_cri_api::{Endpoint, Rpc, v1};
use tokio::io::AsyncReadExt;
use tonic::Code;

const PATIENCE: Duration = Duration::from_secs(10);

fn runtime(running: &Running) -> RuntimeClient {
    Connection::new(running.endpoint.clone(), ClientOptions::default()).runtime()
}

#[tokio::test]
async fn a_runtime_that_streams_lists_is_asked_for_streams() {
    let running = Running::start(Behaviour {
        streams: true,
        containers: 3,
        ..Default::default()
    });
    let ids: Vec<_> = runtime(&running).list_containers(None).await.unwrap();
    assert_eq!(
        ids.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(),
        ["c0", "c1", "c2"]
    );
    assert_eq!(running.seen.unary_lists.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_runtime_that_cannot_stream_is_asked_only_once() {
    let running = Running::start(Behaviour {
        containers: 2,
        ..Default::default()
    });
    let client = runtime(&running);
    for _ in 0..3 {
        assert_eq!(client.clone().list_containers(None).await.unwrap().len(), 2);
    }
    assert_eq!(running.seen.streamed_lists.load(Ordering::Relaxed), 1);
    assert_eq!(running.seen.unary_lists.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_list_beyond_one_messages_size_comes_through_as_a_stream() {
    let big = || Behaviour {
        containers: 5,
        padding: 4 << 20,
        ..Default::default()
    };
    let running = Running::start(Behaviour {
        streams: true,
        ..big()
    });
    assert_eq!(
        runtime(&running).list_containers(None).await.unwrap().len(),
        5
    );

    let running = Running::start(big());
    let error = runtime(&running).list_containers(None).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");

    let options = ClientOptions {
        max_message: 64 << 20,
        ..Default::default()
    };
    let client = Connection::new(running.endpoint.clone(), options).runtime();
    assert_eq!(client.list_containers(None).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_runtime_knows_it() {
    let running = Running::start(Behaviour {
        version_delay: Duration::from_mins(1),
        ..Default::default()
    });
    let options = ClientOptions {
        timeout: Duration::from_millis(100),
        ..Default::default()
    };
    let client = Connection::new(running.endpoint.clone(), options).runtime();
    let begin = Instant::now();
    let error = client.version().await.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Deadline {
                rpc: Rpc::Version,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(begin.elapsed() < PATIENCE);
    assert_eq!(running.seen.timeouts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_answer_without_what_the_interface_demands_is_an_error() {
    let complete = v1::ContainerStatus {
        id: "c1".into(),
        metadata: Some(v1::ContainerMetadata {
            name: "web".into(),
            attempt: 0,
        }),
        created_at: 1,
        image: Some(v1::ImageSpec {
            image: "busybox".into(),
            ..Default::default()
        }),
        image_ref: "sha256:1".into(),
        ..Default::default()
    };
    let ask = async |status: v1::ContainerStatus| {
        let running = Running::start(Behaviour {
            status: Some(status),
            ..Default::default()
        });
        runtime(&running).container_status("c1", false).await
    };
    assert!(ask(complete.clone()).await.is_ok());
    let missing = [
        (
            "id",
            v1::ContainerStatus {
                id: String::new(),
                ..complete.clone()
            },
        ),
        (
            "metadata.name",
            v1::ContainerStatus {
                metadata: None,
                ..complete.clone()
            },
        ),
        (
            "created_at",
            v1::ContainerStatus {
                created_at: 0,
                ..complete.clone()
            },
        ),
        (
            "image.image",
            v1::ContainerStatus {
                image: None,
                ..complete.clone()
            },
        ),
        (
            "image_ref",
            v1::ContainerStatus {
                image_ref: String::new(),
                ..complete.clone()
            },
        ),
    ];
    for (name, status) in missing {
        match ask(status).await {
            Err(ClientError::Incomplete {
                rpc: Rpc::ContainerStatus,
                field,
            }) => {
                assert_eq!(field, name);
            }
            other => panic!("without {name}: {other:?}"),
        }
    }
    let running = Running::start(Behaviour::default());
    assert!(
        runtime(&running)
            .container_status("c1", false)
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test]
async fn an_image_without_id_is_no_image() {
    let running = Running::start(Behaviour::default());
    let images = Connection::new(running.endpoint.clone(), ClientOptions::default()).images();
    let answer = images.image_status(v1::ImageSpec::default(), false).await;
    let answer = answer.unwrap();
    assert_eq!(answer.image, None);
}

#[tokio::test]
async fn a_command_that_takes_too_long_differs_from_one_that_fails() {
    let running = Running::start(Behaviour::default());
    let client = runtime(&running);
    let run = async |cmd: &str| {
        client
            .exec_sync("c1", vec![cmd.to_owned()], Duration::from_secs(1))
            .await
    };
    assert_eq!(run("false").await.unwrap().exit_code, 3);
    let error = run("sleep").await.unwrap_err();
    assert!(
        matches!(error, ClientError::CommandTimedOut { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn impossible_streams_are_refused_before_the_call() {
    let running = Running::start(Behaviour::default());
    let client = runtime(&running);
    let none = v1::ExecRequest {
        container_id: "c1".into(),
        ..Default::default()
    };
    let both = v1::ExecRequest {
        tty: true,
        stderr: true,
        ..none.clone()
    };
    for request in [none, both] {
        assert_eq!(
            client.exec(request).await.unwrap_err().code(),
            Code::InvalidArgument
        );
    }
}

#[tokio::test]
async fn a_pull_that_is_given_up_is_given_up_at_the_runtime() {
    let running = Running::start(Behaviour::default());
    let images = Connection::new(running.endpoint.clone(), ClientOptions::default()).images();
    let pull = tokio::spawn(async move { images.pull_image(PullRequest::default()).await });
    tokio::time::timeout(PATIENCE, running.seen.pull_begun.notified())
        .await
        .unwrap();
    pull.abort();
    tokio::time::timeout(PATIENCE, running.seen.pull_dropped.notified())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_endpoint_where_nobody_is_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
    let client = Connection::new(endpoint, ClientOptions::default()).runtime();
    let error = client.version().await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Unreachable(cause) if cause.kind() == io::ErrorKind::NotFound),
        "{error:?}"
    );
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        error
            .to_string()
            .contains("check that the runtime is running"),
        "{error}"
    );
}

#[tokio::test]
async fn a_client_outlives_its_runtime_and_finds_the_next_one() {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let socket = directory.path().join("fake.sock");
    let client = Connection::new(Endpoint::Unix(socket), ClientOptions::default()).runtime();
    // Two failures make the pause longer than the first one's.
    assert!(client.version().await.is_err());
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert!(client.version().await.is_err());

    let running = Running::start_in(directory, Behaviour::default());
    let begin = Instant::now();
    let error = client.version().await;
    let error = error.expect_err("within the pause no connection is tried");
    assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
    while client.version().await.is_err() {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let directory = running.stop().await;
    let running = Running::start_in(directory, Behaviour::default());
    let begin = Instant::now();
    while client.version().await.is_err() {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(running);
}

#[tokio::test]
async fn a_runtime_that_ends_in_the_middle_of_a_call_is_told_from_one_that_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("ending.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let runtime = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut begun = [0; 24];
        connection.read_exact(&mut begun).await.unwrap();
    };
    let client = Connection::new(Endpoint::Unix(socket), ClientOptions::default()).runtime();
    let (answer, ()) = tokio::join!(client.version(), runtime);
    let error = answer.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
    assert_eq!(error.code(), Code::Unavailable);
    let text = error.to_string();
    assert!(
        text.starts_with("Version failed") && text.contains("try again"),
        "{text}"
    );
}

#[tokio::test]
async fn an_observer_hears_of_each_call_and_its_end() {
    #[derive(Default)]
    struct Ears(Mutex<Vec<(Rpc, Outcome)>>);
    impl Observer for Ears {
        fn ended(&self, rpc: Rpc, _: Duration, outcome: Outcome) {
            self.0.lock().unwrap().push((rpc, outcome));
        }
    }
    let ears = Arc::new(Ears::default());
    let running = Running::start(Behaviour::default());
    let options = ClientOptions {
        observer: Some(ears.clone()),
        ..Default::default()
    };
    let client = Connection::new(running.endpoint.clone(), options).runtime();
    client.version().await.unwrap();
    client.start_container("c1").await.unwrap_err();
    assert_eq!(
        *ears.0.lock().unwrap(),
        [
            (Rpc::Version, Ok(())),
            (Rpc::StartContainer, Err(Code::Unimplemented))
        ]
    );
}

#[tokio::test]
async fn the_old_versions_names_reach_the_same_handlers() {
    let running = Running::start(Behaviour {
        containers: 1,
        ..Default::default()
    });
    let socket = running.socket.clone();
    let channel = tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector(tower::service_fn(move |_| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        }))
        .await
        .unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    let mut answers = Vec::new();
    for version in ["v1", "v1alpha2"] {
        grpc.ready().await.unwrap();
        let path = format!("/runtime.{version}.RuntimeService/ListContainers");
        let answer: v1::ListContainersResponse = grpc
            .unary(
                tonic::Request::new(v1::ListContainersRequest::default()),
                path.parse().unwrap(),
                tonic_prost::ProstCodec::default(),
            )
            .await
            .unwrap()
            .into_inner();
        answers.push(answer);
    }
    assert_eq!(answers[0].containers.len(), 1);
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn an_unbuilt_call_names_itself() {
    let running = Running::start(Behaviour::default());
    let error = runtime(&running).stop_pod_sandbox("p1").await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert!(
        error.runtime_message().unwrap().contains("StopPodSandbox"),
        "{error}"
    );
}
