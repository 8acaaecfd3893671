//! The tokio runtime of a client command.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind};

use anyhow::{Context, anyhow};
use tokio::runtime::{Builder, Runtime};

/// Creates a runtime for a client command, which does one thing at a time.
pub fn client() -> anyhow::Result<Runtime> {
    built(&mut Builder::new_current_thread()).context("cannot start the I/O runtime of the command")
}

/// Builds the runtime. tokio can panic if a resource is missing; the panic becomes an error.
pub fn built(builder: &mut Builder) -> anyhow::Result<Runtime> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let built = catch_unwind(AssertUnwindSafe(|| builder.enable_all().build()));
    panic::set_hook(usual);
    match built {
        Ok(built) => Ok(built?),
        Err(panic) => Err(anyhow!("{}", words(&*panic))),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given")
}
