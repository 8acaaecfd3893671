//! Interrupts of calls that create something. The runtime continues such a call when its client leaves, so the result
//! would be left behind.

use std::fmt::Display;
use std::future::Future;
use std::io;

use anyhow::{anyhow, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Waits for a signal from the user or the parent process to stop.
pub(crate) async fn received() -> io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminated.recv() => Ok(()),
    }
}

/// Awaits a call that creates something. After an interrupt it still waits for the end of the call, and undoes the
/// result. A second interrupt gives up.
pub(crate) async fn or_undo<T, E, U>(
    make: impl Future<Output = Result<T, E>>,
    undo: impl FnOnce(T) -> U,
) -> anyhow::Result<T>
where
    E: Into<anyhow::Error>,
    T: Display,
    U: Future<Output = anyhow::Result<()>>,
{
    tokio::pin!(make);
    tokio::select! {
        made = &mut make => return made.map_err(Into::into),
        interrupt = received() => interrupt?,
    }
    say!(
        "interrupted; waiting for the runtime to finish, then removing the new object (interrupt \
         again to exit now)"
    );
    let made = tokio::select! {
        made = &mut make => made,
        _ = received() => bail!("interrupted; the runtime may still create the object"),
    };
    let Ok(made) = made else {
        bail!("interrupted; nothing was created");
    };
    let name = made.to_string();
    match undo(made).await {
        Ok(()) => Err(anyhow!("interrupted; {name} was removed")),
        Err(error) => Err(error.context(format!("interrupted, and {name} was not removed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_made_undisturbed_is_kept() {
        let make = async { Ok::<_, anyhow::Error>("pod") };
        let made = or_undo(make, |_| async { panic!("undone") }).await;
        assert_eq!(made.unwrap(), "pod");
    }
}
