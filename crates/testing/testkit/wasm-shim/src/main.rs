//! A shim for the tests: runwasi's library, as its own shims have it, with an interpreter for the
//! modules, which is built in a minute.

use std::path::Path;

use anyhow::{Context as _, Result};
use containerd_shim_wasm::sandbox::Sandbox;
use containerd_shim_wasm::sandbox::context::RuntimeContext;
use containerd_shim_wasm::shim::{Cli as _, Shim};
use wasmi::{Engine, Linker, Module, Store};
use wasmi_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};

fn main() {
    Kit::run(None);
}

struct Kit;

impl Shim for Kit {
    type Sandbox = Interpreter;

    fn name() -> &'static str {
        "kitwasm"
    }
}

#[derive(Default)]
struct Interpreter;

impl Sandbox for Interpreter {
    async fn run_wasi(&self, container: &impl RuntimeContext) -> Result<i32> {
        let entrypoint = container.entrypoint();
        let module = entrypoint.source.as_bytes()?;
        let engine = Engine::default();
        let module = Module::new(&engine, &module[..])?;
        let mut store = Store::new(&engine, wasi(container)?);
        let mut linker = Linker::<WasiCtx>::new(&engine);
        wasmi_wasi::add_to_linker(&mut linker, |wasi| wasi)?;
        let instance = linker.instantiate_and_start(&mut store, &module)?;
        let start = instance.get_func(&store, &entrypoint.func);
        let start = start.with_context(|| format!("no function {}", entrypoint.func))?;
        match start.call(&mut store, &[], &mut []) {
            Ok(()) => Ok(0),
            Err(error) => error.i32_exit_status().ok_or_else(|| error.into()),
        }
    }
}

fn wasi(container: &impl RuntimeContext) -> Result<WasiCtx> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(container.args())?.inherit_stdio();
    for variable in container.envs() {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        wasi.env(name, value)?;
    }
    let root = Dir::open_ambient_dir(Path::new("/"), ambient_authority())?;
    wasi.preopened_dir(root, "/")?;
    Ok(wasi.build())
}
