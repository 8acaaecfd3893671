//! Bounded fuzzing of texts that people write.

use orlop_testkit::Fuzz;
use orlop_yaml::{Document, documents};

/// Every text is read or refused with a reason.
#[test]
fn no_text_breaks_the_reader() {
    Fuzz::new()
        .example(
            "apiVersion: v1\nmetadata: {name: a, labels: {x: \"y\"}}\n---\n- 1\n- ~\n",
        )
        .example(
            "base: &b\n  a: 1\n  b: [x, 'y', \"z\\u00e9\"]\nother:\n  <<: *b\n  text: |2-\n    kept\n",
        )
        .example("{\"a\": [1, 2.5e3, null, true, \"\\ud83d\\ude00\"], \"b\": {}}")
        .example("? - complex\n: !!str 0o17\n%YAML 1.2\n...\n")
        .words(["&a ", "*a", "<<: *a", "- ", ": ", "? ", "|", ">-", "[[[[", "{{{{", "---\n", "\t"])
        .words(["!!binary ", "\u{feff}", "\0", "'", "\"", "#", "\r", "...\n", "0x", "2020-01-01"])
        .run(|input| {
            for document in documents(&String::from_utf8_lossy(input)) {
                if let Document::Bad(at, why) = document {
                    assert!(!why.is_empty(), "no reason at {at:?}");
                }
            }
        });
}
