//! Repeats a request while the Docker Engine is not reachable.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::docker::DockerError;
use crate::error::chain;

/// How long the engine may take for one object before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// First and longest pause between attempts to reach the engine.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often the engine may break the connection for one object.
const BREAKS: u32 = 5;

/// Retries until the engine is reachable, and then waits for its response with a timeout.
pub(crate) async fn persist<T, E, F>(
    patience: Duration,
    ask: impl Fn() -> F,
    of_engine: impl Fn(&E) -> Option<&DockerError>,
) -> Result<T, String>
where
    F: Future<Output = Result<T, E>>,
    E: std::error::Error + 'static,
{
    let mut pause = FIRST_PAUSE;
    let mut breaks = 0;
    loop {
        let Ok(answer) = timeout(patience, ask()).await else {
            return Err(format!("the engine did not answer within {patience:?}"));
        };
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match of_engine(&error) {
            Some(DockerError::Unreachable { .. }) => {}
            Some(DockerError::Broken { .. }) if breaks < BREAKS => breaks += 1,
            _ => return Err(chain(&error)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
