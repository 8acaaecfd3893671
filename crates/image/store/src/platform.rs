//! Selects the platform of an image that runs on this machine.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// An operating system, architecture and variant, in the names that images use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: String,
}

impl Platform {
    /// Creates a platform, with the usual aliases of architectures resolved.
    pub fn new(os: &str, architecture: &str, variant: &str) -> Self {
        let (architecture, implied) = match architecture {
            "x86_64" | "x86-64" => ("amd64", ""),
            "aarch64" => ("arm64", ""),
            "armhf" => ("arm", "v7"),
            "armel" => ("arm", "v6"),
            "i386" | "i686" => ("386", ""),
            "powerpc64le" => ("ppc64le", ""),
            "wasm32" => ("wasm", ""),
            other => (other, ""),
        };
        let variant = if variant.is_empty() { implied } else { variant };
        // The baseline has no name, so that "v8" and "" are the same platform.
        let variant = match (architecture, variant) {
            ("arm64", "v8" | "8") | ("amd64", "v1") => "",
            ("arm", "" | "7") => "v7",
            ("arm", "6") => "v6",
            ("arm", "5") => "v5",
            (_, variant) => variant,
        };
        Self {
            os: os.to_lowercase(),
            architecture: architecture.to_lowercase(),
            variant: variant.to_lowercase(),
        }
    }

    /// Returns the platform of this machine.
    pub fn host() -> Self {
        Self::new("linux", std::env::consts::ARCH, host_variant())
    }

    /// Returns the architecture, e.g. `amd64`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns whether the platform is WebAssembly, which needs a separate runtime on any machine.
    pub fn is_wasm(&self) -> bool {
        self.architecture == "wasm" && matches!(&*self.os, "wasi" | "wasip1")
    }

    /// Returns how well content for `offered` runs on `self`: smaller is better, `None` means not at all.
    pub fn rank(&self, offered: &Self) -> Option<u32> {
        if offered.is_wasm() {
            // Used only if there is nothing for the machine itself.
            let wasip1 = offered.os == "wasip1";
            return Some(if wasip1 { u32::MAX - 1 } else { u32::MAX });
        }
        if self.os != offered.os || self.architecture != offered.architecture {
            return None;
        }
        let (mine, theirs) = (level(&self.variant)?, level(&offered.variant)?);
        // A newer processor runs code for older ones of its family.
        mine.checked_sub(theirs)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [os, architecture] if !os.is_empty() && !architecture.is_empty() => {
                Ok(Self::new(os, architecture, ""))
            }
            [os, architecture, variant] if !os.is_empty() && !architecture.is_empty() => {
                Ok(Self::new(os, architecture, variant))
            }
            _ => Err(Error::Configuration {
                path: "platform".to_owned(),
                reason: format!("{text:?} is not of the form os/architecture[/variant]"),
            }),
        }
    }
}

/// Parses a variant `v1` … `v9`; no variant is the baseline of the architecture.
fn level(variant: &str) -> Option<u32> {
    match variant {
        "" => Some(1),
        other => other.strip_prefix('v')?.parse().ok(),
    }
}

#[cfg(target_arch = "x86_64")]
fn host_variant() -> &'static str {
    let v2 = std::arch::is_x86_feature_detected!("sse4.2")
        && std::arch::is_x86_feature_detected!("popcnt")
        && std::arch::is_x86_feature_detected!("ssse3");
    let v3 = v2
        && std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("lzcnt")
        && std::arch::is_x86_feature_detected!("movbe")
        && std::arch::is_x86_feature_detected!("f16c");
    match (v2, v3) {
        (_, true) => "v3",
        (true, false) => "v2",
        _ => "",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn host_variant() -> &'static str {
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(host: &str, offered: &str) -> Option<u32> {
        host.parse::<Platform>()
            .unwrap()
            .rank(&offered.parse().unwrap())
    }

    #[test]
    fn variants_are_ordered_and_never_too_new() {
        assert_eq!(rank("linux/arm64", "linux/arm64/v8"), Some(0));
        assert!(rank("linux/arm/v7", "linux/arm/v6") > rank("linux/arm/v7", "linux/arm/v7"));
        assert_eq!(rank("linux/arm/v6", "linux/arm/v7"), None);
        assert!(rank("linux/amd64/v3", "linux/amd64") > rank("linux/amd64/v3", "linux/amd64/v2"));
        assert_eq!(rank("linux/amd64/v2", "linux/amd64/v3"), None);
    }

    #[test]
    fn other_systems_and_architectures_do_not_match() {
        assert_eq!(rank("linux/amd64", "windows/amd64"), None);
        assert_eq!(rank("linux/amd64", "linux/arm64"), None);
        assert_eq!(rank("linux/amd64", "unknown/unknown"), None);
        assert_eq!(rank("linux/x86_64", "linux/amd64/v1"), Some(0));
        assert_eq!(rank("linux/amd64", "js/wasm"), None);
        assert_eq!(rank("linux/amd64", "wasip1/amd64"), None);
    }

    #[test]
    fn modules_of_webassembly_come_after_all_that_is_for_the_machine() {
        let machine = rank("linux/arm/v7", "linux/arm/v5");
        let newer = rank("linux/arm/v7", "wasip1/wasm");
        let older = rank("linux/arm/v7", "wasi/wasm32");
        assert!(machine.is_some() && machine < newer && newer < older);
    }
}
