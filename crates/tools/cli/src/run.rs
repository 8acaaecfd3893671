//! Execution of a parsed command line.

use std::process::ExitCode;

use anyhow::anyhow;

use crate::commands::Command;
use crate::connect::{ClientFlags, Dialect, Session, advice};
use crate::host::Host;
use crate::output::forgive_deaf_reader;
use crate::reactor;

impl Command {
    /// Runs the command on one thread.
    pub fn run(self, flags: ClientFlags, dialect: Dialect, host: Host) -> anyhow::Result<ExitCode> {
        let session = Session::open(flags, dialect)?.on(host);
        let runtime = reactor::client()?;
        let result = runtime.block_on(self.call(&session));
        // A blocking read of the terminal may still be running; nobody waits for it.
        runtime.shutdown_background();
        let result = forgive_deaf_reader(result);
        if let (Err(error), Dialect::Orlop) = (&result, dialect)
            && let Some(advice) = advice::on(error)
        {
            return Err(anyhow!("{error:#}\n  {advice}"));
        }
        result
    }
}
