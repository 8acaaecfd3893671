//! Output formats and their flags.

use std::str::FromStr;

use anyhow::bail;
use orlop_template::Template;

use super::jsonpath::JsonPath;

/// A format, with its template if it has one.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For both.
    Yaml,
    /// A template in the syntax of Go.
    Template(Template),
    /// JSONPath expressions.
    JsonPath(JsonPath),
}

/// The flags that choose a format.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FormatFlags {
    /// Output format: table, json, yaml; go-template or jsonpath with --template TEXT, or as
    /// go-template=TEXT and jsonpath=TEXT
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Name>,

    /// Template for the formats go-template and jsonpath
    #[arg(long, value_name = "TEXT")]
    template: Option<String>,
}

#[derive(Debug, Clone)]
enum Name {
    Table,
    Json,
    Yaml,
    GoTemplate(Option<String>),
    JsonPath(Option<String>),
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("go-template", template)) => Ok(Self::GoTemplate(Some(template.to_owned()))),
            Some(("jsonpath", template)) => Ok(Self::JsonPath(Some(template.to_owned()))),
            None => match text {
                "table" => Ok(Self::Table),
                "json" => Ok(Self::Json),
                "yaml" => Ok(Self::Yaml),
                "go-template" => Ok(Self::GoTemplate(None)),
                "jsonpath" => Ok(Self::JsonPath(None)),
                _ => Err(
                    "the output format must be table, json, yaml, go-template or jsonpath"
                        .to_owned(),
                ),
            },
            Some(_) => Err("only the formats go-template and jsonpath take a template".to_owned()),
        }
    }
}

impl FormatFlags {
    /// Returns the requested format, else the table; a template alone selects its format.
    pub(crate) fn or_table(&self) -> anyhow::Result<Format> {
        self.or(Format::Table)
    }

    /// Returns the requested format, else JSON.
    pub(crate) fn or_json(&self) -> anyhow::Result<Format> {
        self.or(Format::Json)
    }

    fn or(&self, default: Format) -> anyhow::Result<Format> {
        Ok(match (&self.output, &self.template) {
            (None, None) => default,
            (Some(Name::Table), None) => Format::Table,
            (Some(Name::Json), None) => Format::Json,
            (Some(Name::Yaml), None) => Format::Yaml,
            (Some(Name::GoTemplate(Some(text))), None)
            | (None | Some(Name::GoTemplate(None)), Some(text)) => {
                Format::Template(Template::parse(text)?)
            }
            (Some(Name::JsonPath(Some(text))), None) | (Some(Name::JsonPath(None)), Some(text)) => {
                Format::JsonPath(JsonPath::parse(text)?)
            }
            (Some(Name::GoTemplate(None) | Name::JsonPath(None)), None) => {
                bail!("this format needs --template TEXT")
            }
            (Some(Name::GoTemplate(Some(_)) | Name::JsonPath(Some(_))), Some(_)) => {
                bail!("two templates were given")
            }
            (Some(_), Some(_)) => {
                bail!("--template is for the formats go-template and jsonpath only")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_and_formats_go_together_or_not() {
        let choose = |output: Option<&str>, template: Option<&str>| {
            FormatFlags {
                output: output.map(|text| text.parse().unwrap()),
                template: template.map(str::to_owned),
            }
            .or_json()
        };
        assert!(matches!(choose(None, None), Ok(Format::Json)));
        assert!(matches!(choose(Some("yaml"), None), Ok(Format::Yaml)));
        assert!(matches!(
            choose(None, Some("{{.a}}")),
            Ok(Format::Template(_))
        ));
        assert!(matches!(
            choose(Some("go-template"), Some("{{.a}}")),
            Ok(Format::Template(_))
        ));
        assert!(matches!(
            choose(Some("go-template={{.a}}"), None),
            Ok(Format::Template(_))
        ));
        assert!(matches!(
            choose(Some("jsonpath={.a}"), None),
            Ok(Format::JsonPath(_))
        ));
        assert!(matches!(
            choose(Some("jsonpath"), Some("{.a}")),
            Ok(Format::JsonPath(_))
        ));
        assert!(choose(Some("json"), Some("{{.a}}")).is_err());
        assert!(choose(Some("go-template"), None).is_err());
        assert!(choose(None, Some("{{.a")).is_err());
        assert!("xml".parse::<Name>().is_err());
    }
}
