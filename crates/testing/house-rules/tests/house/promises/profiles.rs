//! The profiles of `.config/nextest.toml` and the tests that they select.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::filter::Filter;
use super::programs::Test;

#[derive(Deserialize)]
struct Config {
    profile: BTreeMap<String, Profile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Profile {
    inherits: Option<String>,
    default_filter: Option<String>,
    #[serde(default)]
    overrides: Vec<Override>,
}

#[derive(Deserialize)]
struct Override {
    filter: Option<String>,
}

/// Filters of each profile and of its overrides.
pub struct Profiles {
    filters: BTreeMap<String, Filter>,
    exceptions: Vec<(String, Filter)>,
}

impl Profiles {
    pub fn read(text: &str) -> Result<Self, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut profiles = Self {
            filters: BTreeMap::new(),
            exceptions: Vec::new(),
        };
        for (name, profile) in &config.profile {
            let named = |error: String| format!("profile {name}: {error}");
            let text = filter_of(&config, name).map_err(named)?;
            let filter = Filter::read(text).map_err(named)?;
            profiles.filters.insert(name.clone(), filter);
            for exception in &profile.overrides {
                let text = exception.filter.as_deref().unwrap_or("all()");
                let filter = Filter::read(text).map_err(named)?;
                profiles.exceptions.push((name.clone(), filter));
            }
        }
        Ok(profiles)
    }

    /// Returns the filter of a profile.
    pub fn of(&self, name: &str) -> Result<&Filter, String> {
        let filter = self.filters.get(name);
        filter.ok_or_else(|| format!("no profile {name} in .config/nextest.toml"))
    }

    /// Returns all terms that can be removed from a filter without a change of the selection.
    pub fn idle_terms(&self, tests: &[Test]) -> Vec<String> {
        let filters = self.filters.iter();
        let exceptions = self.exceptions.iter().map(|(name, filter)| (name, filter));
        let all = filters.chain(exceptions).flat_map(|(name, filter)| {
            let idle = filter.idle_terms(tests).into_iter();
            idle.map(move |term| format!("profile {name}: {term}"))
        });
        all.collect()
    }
}

/// Returns a profile's own filter, else that of the profile it inherits from.
fn filter_of<'c>(config: &'c Config, name: &str) -> Result<&'c str, String> {
    let mut name = name;
    for _ in 0..8 {
        let profile = config.profile.get(name);
        let profile = profile.ok_or_else(|| format!("inherits from {name}, which is missing"))?;
        if let Some(filter) = &profile.default_filter {
            return Ok(filter);
        }
        match &profile.inherits {
            Some(next) => name = next,
            None if name == "default" => return Ok("all()"),
            None => name = "default",
        }
    }
    Err("inherits from itself".to_owned())
}

#[test]
fn profiles_select_by_their_own_filter_or_an_inherited_one() {
    let profiles = Profiles::read(
        "
        [profile.default]
        [profile.ci]
        retries = 0
        default-filter = 'not binary(=docker)'
        [[profile.ci.overrides]]
        filter = 'test(/^volumes::/) | test(/^pods::/)'
        [profile.chaos]
        inherits = 'ci'
        [profile.runc]
        inherits = 'ci'
        default-filter = 'binary(=cri) & test(/^pods::/)'
        [profile.other]
        ",
    )
    .unwrap();
    let tests = super::names::sample();
    let count = |name: &str| {
        let filter = profiles.of(name).unwrap();
        tests.iter().filter(|test| filter.selects(test)).count()
    };
    assert_eq!(
        ["default", "ci", "chaos", "runc", "other"].map(count),
        [10, 9, 9, 2, 10]
    );
    assert_eq!(
        profiles.idle_terms(&tests),
        ["profile ci: test(/^volumes::/)"]
    );
    assert!(profiles.of("crun").is_err());
    for (text, part) in [
        (
            "[profile.a]\ninherits = 'b'",
            "inherits from b, which is missing",
        ),
        ("[profile.a]\ninherits = 'a'", "inherits from itself"),
        (
            "[profile.default]\ndefault-filter = 'kind(lib)'",
            "profile default: `kind(lib)",
        ),
    ] {
        let error = Profiles::read(text).err().unwrap_or_default();
        assert!(error.contains(part), "{text}: {error}");
    }
}
