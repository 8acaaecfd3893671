//! Host name lookups on their own threads.

use std::net::SocketAddr;

use orlop_pool::Place;
use tokio::net::TcpStream;

/// A name that no server answers occupies only these threads: the resolver waits for half a minute,
/// but a probe may run every second.
static LOOKING_UP: Place = Place::new("looking up the hosts of probes and hooks", 32, 2, 512);

/// Connects to a host by address or name.
pub(super) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let mut last = format!("lookup {host}: no such host");
    for address in look_up(host, port).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

async fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = orlop_pool::look_up(&LOOKING_UP, host, port).await;
    found.map_err(|error| format!("lookup {host}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_name_that_nobody_answers_for_keeps_no_other_waiting() {
        let (release, held) = channel::<()>();
        let held = std::sync::Arc::new(parking_lot::Mutex::new(held));
        // `getaddrinfo` blocks like this if no name server answers.
        let hung: Vec<_> = (0..40)
            .map(|_| {
                let held = held.clone();
                tokio::spawn(LOOKING_UP.run_for("dead.test", move || {
                    let _ = held.lock().recv();
                }))
            })
            .collect();
        tokio::task::yield_now().await;
        let found = look_up("localhost", 7);
        let found = tokio::time::timeout(Duration::from_secs(5), found).await;
        let found = found.expect("it does not wait").expect("found");
        assert!(
            found
                .iter()
                .any(|it| it.port() == 7 && it.ip().is_loopback())
        );
        drop(release);
        for one in hung {
            one.await.unwrap().unwrap();
        }
        let error = look_up("no such host", 7).await.unwrap_err();
        assert!(error.starts_with("lookup no such host: "), "{error}");
        assert!(look_up("::1", 7).await.unwrap()[0].is_ipv6());
    }
}
