//! `Debug` output of messages that may contain secrets: it shows which fields are set, never their values.

use std::fmt::{Debug, Formatter, Result};

use crate::v1::{AuthConfig, ExecRequest, ExecSyncRequest, ExecSyncResponse, KeyValue};

impl Debug for AuthConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("AuthConfig")
            .field("username", &Hidden::text(&self.username))
            .field("password", &Hidden::text(&self.password))
            .field("auth", &Hidden::text(&self.auth))
            .field("server_address", &self.server_address)
            .field("identity_token", &Hidden::text(&self.identity_token))
            .field("registry_token", &Hidden::text(&self.registry_token))
            .finish()
    }
}

impl Debug for KeyValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("KeyValue")
            .field("key", &self.key)
            .field("value", &Hidden(self.value.is_empty()))
            .finish()
    }
}

impl Debug for ExecSyncRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ExecSyncRequest")
            .field("container_id", &self.container_id)
            .field("cmd", &Command(&self.cmd))
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl Debug for ExecSyncResponse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ExecSyncResponse")
            .field("stdout", &format_args!("{} bytes", self.stdout.len()))
            .field("stderr", &format_args!("{} bytes", self.stderr.len()))
            .field("exit_code", &self.exit_code)
            .finish()
    }
}

impl Debug for ExecRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ExecRequest")
            .field("container_id", &self.container_id)
            .field("cmd", &Command(&self.cmd))
            .field("tty", &self.tty)
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish()
    }
}

/// A value that is printed only as set or unset.
struct Hidden(bool);

impl Hidden {
    fn text(value: &str) -> Self {
        Self(value.is_empty())
    }
}

impl Debug for Hidden {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(if self.0 { "unset" } else { "[redacted]" })
    }
}

/// A command, printed as the program and the number of arguments, because arguments may contain passwords.
struct Command<'a>(&'a [String]);

impl Debug for Command<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            [] => f.write_str("[]"),
            [program] => write!(f, "[{program:?}]"),
            [program, rest @ ..] => write!(f, "[{program:?}, +{} redacted]", rest.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ContainerConfig, CreateContainerRequest, PullImageRequest};

    const SECRET: &str = "hunter2";

    #[test]
    fn credentials_never_show_in_debug_output() {
        let request = PullImageRequest {
            auth: Some(AuthConfig {
                username: SECRET.into(),
                password: SECRET.into(),
                auth: SECRET.into(),
                server_address: "registry.test".into(),
                identity_token: SECRET.into(),
                registry_token: SECRET.into(),
            }),
            ..Default::default()
        };
        for shown in [format!("{request:?}"), format!("{request:#?}")] {
            assert!(!shown.contains(SECRET), "{shown}");
            assert!(shown.contains("registry.test"), "{shown}");
        }
    }

    #[test]
    fn environment_and_commands_never_show_in_debug_output() {
        let create = CreateContainerRequest {
            config: Some(ContainerConfig {
                envs: vec![KeyValue {
                    key: "PASSWORD".into(),
                    value: SECRET.into(),
                }],
                ..Default::default()
            }),
            ..Default::default()
        };
        let cmd = vec!["mysql".to_owned(), format!("-p{SECRET}")];
        let sync = ExecSyncRequest {
            container_id: "c1".into(),
            cmd: cmd.clone(),
            timeout: 1,
        };
        let exec = ExecRequest {
            container_id: "c1".into(),
            cmd,
            ..Default::default()
        };
        let output = ExecSyncResponse {
            stdout: SECRET.into(),
            ..Default::default()
        };
        let shown = format!("{create:?} {sync:?} {exec:?} {output:?}");
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(
            shown.contains("PASSWORD") && shown.contains("mysql"),
            "{shown}"
        );
    }
}
