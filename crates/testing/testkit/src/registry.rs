//! A registry: Debian's docker-registry on a free loopback port.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;

use crate::machine;
use crate::process::Process;
use crate::scratch::Scratch;

/// User name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Login {
    /// A login.
    pub fn new(user: &str, password: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    /// Returns the value of an `Authorization: Basic` header.
    pub fn basic(&self) -> String {
        format!(
            "Basic {}",
            BASE64_STANDARD.encode(format!("{}:{}", self.user, self.password))
        )
    }
}

/// A registry, stopped and removed on drop.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    login: Option<Login>,
    // Declared before the directory, so that the process ends first.
    process: Process,
    scratch: Scratch,
}

impl Registry {
    /// Starts an open registry.
    pub fn start() -> Self {
        Self::launch(None)
    }

    /// Starts a registry that requires [`Registry::login`] (basic authentication).
    pub fn start_with_login() -> Self {
        Self::launch(Some(Login::new(LOGIN_USER, LOGIN_PASSWORD)))
    }

    fn launch(login: Option<Login>) -> Self {
        let scratch = Scratch::new();
        let program = machine::program("docker-registry").unwrap_or_else(|e| panic!("{e}"));
        let auth = if login.is_some() {
            let file = scratch.path("htpasswd");
            std::fs::write(&file, format!("{LOGIN_USER}:{LOGIN_HASH}\n")).expect("write htpasswd");
            format!(
                "auth:\n  htpasswd: {{ realm: test, path: {} }}\n",
                file.display()
            )
        } else {
            String::new()
        };
        let config = format!(
            "version: 0.1\n\
             log: {{ level: info, formatter: json, accesslog: {{ disabled: true }} }}\n\
             storage:\n  filesystem: {{ rootdirectory: {} }}\n  delete: {{ enabled: true }}\n\
             http: {{ addr: '127.0.0.1:0', secret: {} }}\n{auth}",
            scratch.subdir("data").display(),
            scratch.id(),
        );
        let config_file = scratch.path("config.yml");
        std::fs::write(&config_file, config).expect("write the registry's configuration");
        let log = scratch.path("log");
        let mut command = Command::new(program);
        command.arg("serve").arg(&config_file).env_clear();
        let mut process = Process::spawn("docker-registry", &mut command, &log);
        let mut address = None;
        process.wait_until(Duration::from_secs(20), "name its port", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            address = listening_on(&text);
            address.is_some()
        });
        Self {
            address: address.expect("just found"),
            login,
            process,
            scratch,
        }
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its host in image references: `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns an image reference in it.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Returns the required login, if any.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Stops the process: connections stay open and silent.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Continues the process.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns its data directory.
    pub fn data(&self) -> std::path::PathBuf {
        self.scratch.path("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Killed, as SIGTERM would wait for open connections.
        self.process.kill();
    }
}

const LOGIN_USER: &str = "sailor";
const LOGIN_PASSWORD: &str = "secret";
/// bcrypt hash of [`LOGIN_PASSWORD`] at the lowest cost, the only kind of hash that the registry reads.
const LOGIN_HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// Returns the address in the log line that the registry writes when it listens.
fn listening_on(log: &str) -> Option<SocketAddr> {
    let rest = log.split("\"listening on ").nth(1)?;
    rest.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;
    use crate::skip_unless;
    use http_body_util::Full;
    use hyper::{Request, StatusCode};

    async fn ping(registry: &Registry, authorization: Option<&str>) -> StatusCode {
        let mut request = Request::get("/v2/");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let request = request.body(Full::default()).expect("build a request");
        http::send(registry.address(), request)
            .await
            .expect("the registry answers")
            .status
    }

    #[tokio::test]
    async fn two_registries_answer_side_by_side() {
        skip_unless!(machine::has_program("docker-registry"));
        let (one, two) = (Registry::start(), Registry::start());
        assert_ne!(one.host(), two.host());
        assert_eq!(ping(&one, None).await, StatusCode::OK);
        assert_eq!(ping(&two, None).await, StatusCode::OK);
    }

    #[tokio::test]
    async fn the_login_is_asked_for() {
        skip_unless!(machine::has_program("docker-registry"));
        let registry = Registry::start_with_login();
        let login = registry.login().expect("has a login").clone();
        assert_eq!(ping(&registry, None).await, StatusCode::UNAUTHORIZED);
        assert_eq!(ping(&registry, Some(&login.basic())).await, StatusCode::OK);
        let wrong = Login::new(&login.user, "guess").basic();
        assert_eq!(
            ping(&registry, Some(&wrong)).await,
            StatusCode::UNAUTHORIZED
        );
    }
}
