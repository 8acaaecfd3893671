//! A command-line flag in a table of settings: the type of the setting determines its values.

/// A flag that sets a setting.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    /// The help text.
    pub help: &'static str,
    /// An alias.
    pub alias: Option<&'static str>,
    /// Its heading in the help, if it is not the common one.
    pub heading: Option<&'static str>,
    /// Whether several values are separated by commas.
    pub commas: bool,
    /// The kind of its values.
    pub form: FlagForm,
    /// Checks a value; returns an error message.
    pub check: fn(&str) -> Result<(), String>,
}

/// The kind of a flag's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagForm {
    /// One value.
    Value,
    /// A value for each occurrence.
    Values,
    /// No value, or a boolean.
    Switch,
}

/// Creates a flag from its name, its value placeholder, and its help text.
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
    /// Adds an alias.
    #[must_use]
    pub const fn alias(self, alias: &'static str) -> Self {
        Self {
            alias: Some(alias),
            ..self
        }
    }

    /// Sets the heading.
    #[must_use]
    pub const fn below(self, heading: &'static str) -> Self {
        Self {
            heading: Some(heading),
            ..self
        }
    }

    /// Accepts several values, separated by commas.
    #[must_use]
    pub const fn commas(self) -> Self {
        Self {
            commas: true,
            ..self
        }
    }
}
