//! A streaming server over the processes of this machine, to be tried with any client.
//!
//! Reads requests from its input, one per line, and prints an URL for each:
//!
//! ```text
//! exec [i][t] COMMAND [ARGUMENT…]     with i: input, with t: a terminal, or - for neither
//! attach [i]                          to something that sends back what it gets
//! portforward [PORT…]                 to this machine's own ports
//! ```
#![allow(clippy::expect_used, reason = "an example may end with its reason")]

#[path = "../tests/stream/fixture/mod.rs"]
mod fixture;

use orlop_streaming::{AttachRequest, PortForwardRequest, Server, TooManyPending};

#[tokio::main]
async fn main() {
    let (server, _) = fixture::serve().await;
    // Blocks the main thread only; the server runs on others.
    for line in std::io::stdin().lines() {
        let line = line.expect("a readable input");
        let words: Vec<&str> = line.split_whitespace().collect();
        match url(&server, &words) {
            Some(Ok(url)) => println!("{url}"),
            Some(Err(error)) => println!("{error}"),
            None => println!("cannot parse: {line}"),
        }
    }
    server.shutdown().await;
}

fn url(server: &Server, words: &[&str]) -> Option<Result<String, TooManyPending>> {
    match words {
        ["exec", flags, command @ ..] => {
            let mut request = fixture::command(command);
            request.stdin = flags.contains('i');
            request.tty = flags.contains('t');
            request.stderr = !request.tty;
            Some(server.exec_url(request))
        }
        ["attach", flags] => Some(server.attach_url(AttachRequest {
            container_id: "echo".to_owned(),
            stdin: flags.contains('i'),
            stdout: true,
            ..AttachRequest::default()
        })),
        ["portforward", ports @ ..] => {
            let ports = ports.iter().filter_map(|port| port.parse().ok()).collect();
            Some(server.port_forward_url(PortForwardRequest {
                pod_id: "pod".to_owned(),
                ports,
            }))
        }
        _ => None,
    }
}
