//! Templates give what Go's text/template gives (1.27, with `missingkey=error`): `answers.json` has its answers,
//! null where it refuses.

use orlop_template::{Template, TemplateError};
use serde_json::{Value, json};

fn render(template: &str, value: &Value) -> Result<String, TemplateError> {
    Template::parse(template)?.render(value)
}

#[test]
fn templates_give_what_go_gives() {
    let recorded: Value = serde_json::from_str(include_str!("answers.json")).expect("JSON");
    let cases = recorded["cases"].as_array().expect("cases");
    assert!(cases.len() > 80);
    let mut wrong = Vec::new();
    for case in cases {
        let (template, expected) = (case[0].as_str().expect("a template"), case[1].as_str());
        let given = render(template, &recorded["value"]);
        if given.as_deref().ok() != expected {
            wrong.push(format!("{template}\n  {given:?}\n  and Go: {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_takes_too_long_or_prints_too_much_is_refused() {
    let refused = |template: &str, why: &str| {
        let problem = render(template, &json!({}))
            .expect_err(template)
            .to_string();
        assert!(problem.contains(why), "{template}: {problem}");
    };
    refused("{{range 9999999999}}{{end}}", "steps");
    // The range and its number are a step each, too.
    let counted = |times: usize| format!("{{{{range {times}}}}}{{{{end}}}}");
    assert!(render(&counted(999_998), &json!({})).is_ok());
    refused(&counted(999_999), "more than 1000000 steps");
    let printed = |bytes: usize| "x".repeat(bytes);
    assert!(render(&printed(16 << 20), &json!({})).is_ok());
    refused(
        &printed((16 << 20) + 1),
        "the output is longer than 16777216 bytes",
    );
    refused(
        "{{range 999}}{{range 999}}{{range 999}}{{end}}{{end}}{{end}}",
        "steps",
    );
    refused(
        "{{range 999999}}{{printf \"%99999s\" \"x\"}}{{end}}",
        "the output is longer",
    );
    let doubled = "{{$x := \"0123456789\"}}{{range 64}}{{$x = print $x $x}}{{end}}";
    refused(doubled, "the result of print is longer");
    let deep = format!("{}x{}", "{{if 1}}".repeat(200), "{{end}}".repeat(200));
    refused(&deep, "nested");
    refused(
        &format!("{{{{{}1{}}}}}", "(".repeat(200), ")".repeat(200)),
        "nested",
    );
    let chain = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(100_000));
    refused(&chain, "nested");
    // A width that is none is left out.
    assert_eq!(
        render("{{printf \"%9999999999s\" \"x\"}}", &json!({})).as_deref(),
        Ok("x")
    );
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "{{",
        "}}",
        "{{-",
        "-}}",
        "range",
        "if",
        "else",
        "end",
        " ",
        ".",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        ",",
        "printf",
        "index",
        "slice",
        "len",
        "\"%",
        "\"",
        "`",
        "1",
        "-9",
        "99",
        "\u{1F600}",
        "é",
        "break",
        "\\",
        "/*",
        "*/",
        "'",
        "and",
        ".a",
        "%5.",
        "1e999",
    ];
    let value = json!({"a": [1, "é", {"b": null}]});
    let mut state = 1_u64;
    for _ in 0..200_000 {
        let mut text = String::from("{{");
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(pieces[usize::try_from(state >> 33).expect("fits") % pieces.len()]);
        }
        text.push_str("}}");
        let _ = render(&text, &value);
    }
}
