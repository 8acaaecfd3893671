//! `web`: serves a web page that shows this node.

mod open;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use orlop_listen::{Listener, Tls, TlsFiles, TlsRules, TlsTerms};
use orlop_web::{Token, Web, WebOptions};
use tokio_util::sync::CancellationToken;

use crate::connect::Session;
use crate::output::write_all;
use crate::terminal::interrupt;

/// Arguments of `web`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CRI endpoint of the container runtime
    #[arg(short = 'r', long, value_name = "ENDPOINT")]
    runtime_endpoint: Option<String>,

    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Open the page in a browser: $BROWSER, or the default browser of xdg-open
    #[arg(long)]
    open: bool,

    /// Certificate chain (PEM) of the server; required for addresses other than loopback
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Host name under which browsers reach this machine, in addition to the address and localhost
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,

    /// Show the environment variables of containers, which may contain secrets
    #[arg(long)]
    show_environment: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let endpoint = match &args.runtime_endpoint {
        Some(endpoint) => endpoint.parse()?,
        None => session.runtime_endpoint()?,
    };
    let tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref());
    let tls = tls.map(|(certificate, key)| {
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: None,
        };
        Tls::load(files, rules()).map(Arc::new)
    });
    let tls = tls.transpose().context("cannot serve the web page")?;
    let listener =
        Listener::tcp(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    let options = WebOptions {
        endpoint,
        token: Token::random(),
        names: args.names,
        shows_environment: args.show_environment,
        extras: None,
    };
    let web = Web::new(listener, tls, options)?;
    let address = web.address();
    write_all(&format!("{address}\n"))?;
    let stop = CancellationToken::new();
    let _opened = args.open.then(|| open::open(&address)).flatten();
    let serving = web.serve(stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(()),
        interrupt = interrupt::received() => interrupt?,
    }
    stop.cancel();
    serving.await;
    Ok(())
}

fn rules() -> TlsRules {
    TlsRules {
        whom: "a browser",
        certificate_is_optional: true,
        terms: TlsTerms::default(),
    }
}
