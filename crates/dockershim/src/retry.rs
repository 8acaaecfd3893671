//! Repeats a request while the Docker Engine is not reachable.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::docker::DockerError;
use crate::error::chain;

/// An engine that takes longer to tell of one thing hangs over it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses between tries to reach an engine that is away, from and to.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often an engine may break off over one thing.
const BREAKS: u32 = 5;

/// Asks until the engine is there, and then waits for its answer for some time.
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
