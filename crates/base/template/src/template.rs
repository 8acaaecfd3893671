//! Templates: parse and render.
//!
//! Supported: text, trimming, comments, fields, variables, pipelines, parentheses, `if`, `range` over lists, maps and
//! numbers, `with`, `else`, `break`, `continue`, and the functions of `functions`. A missing key is an error. Not
//! supported: `define`, `template` and `block`, and methods. Values of different kinds are unequal, where Go refuses to
//! compare them.

use serde_json::Value;

use crate::{eval, lex, parse};

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    nodes: Vec<parse::Node>,
}

/// Errors of a template or its evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template cannot be parsed.
    #[error("cannot parse the template: {0}")]
    Syntax(String),
    /// The template cannot be rendered with this value.
    #[error("cannot execute the template: {0}")]
    Apply(String),
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let pieces = lex::pieces(text).map_err(TemplateError::Syntax)?;
        Ok(Self {
            nodes: parse::nodes(&pieces).map_err(TemplateError::Syntax)?,
        })
    }

    /// Renders the template with a value.
    pub fn render(&self, value: &Value) -> Result<String, TemplateError> {
        eval::render(&self.nodes, value).map_err(TemplateError::Apply)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str) -> Result<String, String> {
        let value = json!({
            "status": {"id": "abc", "labels": {"b.c/d": "2", "a": "1"}, "mounts": [], "pid": 17},
            "items": [{"name": "x", "ready": true}, {"name": "y", "ready": false}],
            "nothing": null,
        });
        Template::parse(template)
            .and_then(|template| template.render(&value))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn templates_do_what_go_does() {
        for (template, expected) in [
            ("{{.status.id}}", "abc"),
            ("id={{ .status.id }} pid={{.status.pid}}", "id=abc pid=17"),
            (r#"{{index .status.labels "b.c/d"}}"#, "2"),
            ("{{range .items}}{{.name}};{{end}}", "x;y;"),
            ("{{range $i, $v := .items}}{{$i}}{{$v.name}}{{end}}", "0x1y"),
            (
                "{{range $k, $v := .status.labels}}{{$k}}={{$v}} {{end}}",
                "a=1 b.c/d=2 ",
            ),
            ("{{range .status.mounts}}x{{else}}none{{end}}", "none"),
            (
                "{{if .status.mounts}}y{{else if .status.pid}}p{{else}}n{{end}}",
                "p",
            ),
            ("{{with .status}}{{.id}}{{end}}", "abc"),
            ("{{(index .items 1).name}}", "y"),
            ("{{len .items}}", "2"),
            ("{{.status.id | printf \"%s-%s\" \"v\" | len}}", "5"),
            (
                "{{printf \"%s-%v %q\" .status.id .status.pid \"x\"}}",
                "abc-17 \"x\"",
            ),
            (
                "{{json .items}}",
                "[{\"name\":\"x\",\"ready\":true},{\"name\":\"y\",\"ready\":false}]\n",
            ),
            ("{{.status.id | upper | printf \"<%s>\"}}", "<ABC>"),
            (
                "{{if and (eq .status.id \"abc\") (not .nothing)}}ok{{end}}",
                "ok",
            ),
            (
                "{{if or .nothing (gt .status.pid 20)}}a{{else}}b{{end}}",
                "b",
            ),
            ("{{- /* note */ -}} a {{- .status.id -}}  \n b", "aabcb"),
            ("{{$x := .status}}{{$x.id}}{{$.status.pid}}", "abc17"),
            (
                "{{.items}}",
                "[map[name:x ready:true] map[name:y ready:false]]",
            ),
            ("{{.nothing}}", "<no value>"),
            ("{{title \"abc\"}}{{lower `ABC`}}", "Abcabc"),
        ] {
            assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(
            render("{{.status.ids}}")
                .unwrap_err()
                .contains("unknown key `ids`")
        );
        assert!(render("{{.status.id").unwrap_err().contains("}}"));
        assert!(render("{{if .a}}").unwrap_err().contains("end"));
        assert!(
            render("{{frobnicate .a}}")
                .unwrap_err()
                .contains("frobnicate")
        );
        assert!(render("{{end}}").unwrap_err().contains("end"));
        assert!(render("{{index .items 7}}").unwrap_err().contains('7'));
        assert!(render("{{.status.id.x}}").unwrap_err().contains('x'));
        assert!(render("{{$y}}").unwrap_err().contains("$y"));
    }
}
