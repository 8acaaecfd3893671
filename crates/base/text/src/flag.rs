//! A flag, as a table of settings has it: beside the setting, whose type says what the flag takes.

/// A flag that sets a setting.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Another name that it goes by.
    pub alias: Option<&'static str>,
    /// The heading in the help that it stands below, if not that of all.
    pub heading: Option<&'static str>,
    /// Whether several values are separated by commas.
    pub commas: bool,
    /// What it is given.
    pub form: FlagForm,
    /// Says what is wrong with a value.
    pub check: fn(&str) -> Result<(), String>,
}

/// What a flag is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagForm {
    /// One value.
    Value,
    /// A value each time.
    Values,
    /// Nothing, or whether it holds.
    Switch,
}

/// A flag as it is written in a table: its name, its value, its help.
pub const fn flag(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        value,
        help,
        alias: None,
        heading: None,
        commas: false,
        form: FlagForm::Value,
        check: |_| Ok(()),
    }
}

impl Flag {
    /// Also goes by another name.
    #[must_use]
    pub const fn alias(self, alias: &'static str) -> Self {
        Self {
            alias: Some(alias),
            ..self
        }
    }

    /// Stands below a heading.
    #[must_use]
    pub const fn below(self, heading: &'static str) -> Self {
        Self {
            heading: Some(heading),
            ..self
        }
    }

    /// Takes several values, separated by commas.
    #[must_use]
    pub const fn commas(self) -> Self {
        Self {
            commas: true,
            ..self
        }
    }
}
