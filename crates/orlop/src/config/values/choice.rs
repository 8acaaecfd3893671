//! Values that are one of a few words.

/// Declares an enum whose variants are words of the configuration.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $( $(#[$variant_meta])* $variant, )*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $( Self::$variant => $word, )* })
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $( $word => Ok(Self::$variant), )*
                    other => Err(format!(
                        "{other:?} is not one of {}",
                        [$($word),*].join(", "),
                    )),
                }
            }
        }

        impl $crate::config::values::Value for $name {
            fn kind() -> String {
                format!("one of {}", [$($word),*].join(", "))
            }

            fn from_toml(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Result<Self, $crate::config::section::BadValue> {
                let bad = |message| $crate::config::section::BadValue {
                    span: value.span(),
                    message,
                };
                match value.get_ref().as_str() {
                    Some(text) => text.parse().map_err(bad),
                    None => Err(bad(format!(
                        "expected {}, found a {}",
                        Self::kind(),
                        value.get_ref().type_str(),
                    ))),
                }
            }

            fn to_toml(&self) -> String {
                format!("\"{self}\"")
            }
        }
    };
}

choice! {
    /// Who runs the pods.
    Backend {
        Native = "native",
        Docker = "docker",
    }
}

choice! {
    /// What happens to output while a log's disk is too slow for it.
    LogFull {
        Wait = "wait",
        Drop = "drop",
    }
}

choice! {
    /// Who makes control groups.
    CgroupDriver {
        Auto = "auto",
        Cgroupfs = "cgroupfs",
        Systemd = "systemd",
    }
}

choice! {
    /// How log lines look.
    LogFormat {
        Auto = "auto",
        Text = "text",
        Json = "json",
        Journal = "journal",
    }
}

choice! {
    /// When CNI's standard plugins run in process.
    InProcess {
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}

choice! {
    /// Which address of a pod is its first one.
    IpPreference {
        Cni = "cni",
        Ipv4 = "ipv4",
        Ipv6 = "ipv6",
    }
}

choice! {
    /// The kinds of runtime.
    RuntimeKind {
        Oci = "oci",
        Shim = "shim",
    }
}

choice! {
    /// Who makes the networks of pods that the Docker Engine runs.
    NetworkPlugin {
        Cni = "cni",
        Bridge = "bridge",
        None = "none",
    }
}

choice! {
    /// How a pod's packets to itself come back to it.
    HairpinMode {
        PromiscuousBridge = "promiscuous-bridge",
        HairpinVeth = "hairpin-veth",
        None = "none",
    }
}
