//! Patterns of English that is hard to read.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Maximum length of a sentence in words.
const LONGEST: usize = 35;

/// Words to avoid, with replacements.
const AVOID: [(&str, &str); 20] = [
    ("anew", "again"),
    ("for want of|for lack of", "because … is missing"),
    (
        "(is|are|was|were|be|been) told",
        "name the actor: … reports, … logs",
    ),
    (
        "(?-i:(is|are|was|were) none)",
        "… has no …, … is missing, … is not a …",
    ),
    ("(is|are) (had|done without)", "without"),
    (
        "as the one|the one (who|that|which)|those (who|that|which)",
        "name the thing",
    ),
    (
        "(he|she|somebody|someone|anybody|nobody|everybody) (who|that)",
        "name the actor",
    ),
    (
        "whoever|whosoever|whatever|hitherto|thereof|of late|befalls?|befell",
        "a usual word",
    ),
    ("so many|so much as", "a number"),
    ("theirs|ours|of its own accord", "the noun"),
    ("(take|takes|taking|took|taken) away", "remove"),
    ("(let|lets|letting) go of", "release, close, free"),
    ("(let|lets|letting) in", "allow, accept"),
    ("strangers?", "others, untrusted, external"),
    (
        "not but|save for|save that|nought|aught|wherein|whereof|whence|thence",
        "a usual word",
    ),
    ("(may|can|to) be had", "available, exists"),
    ("(go|goes|going|went) on", "continue, keep running"),
    ("as it were|by and by", "a usual word"),
    ("likewise so|in vain", "also, without success"),
    (
        "(do|does|ca|is|are|wo|did|was|could|should|would|has|have)n't|can't|won't|it's|that's|what's|there's|you're|we're",
        "no contractions",
    ),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compile = |words: &str| Regex::new(&format!(r"(?i)\b({words})\b")).unwrap();
    AVOID
        .iter()
        .map(|(words, instead)| (compile(words), *instead))
        .collect()
});

/// Returns the mistakes in a passage, each with its context.
pub fn mistakes(text: &str) -> Vec<String> {
    let text = plain(text);
    let mut found = Vec::new();
    for (pattern, instead) in PATTERNS.iter() {
        for hit in pattern.find_iter(&text) {
            let around = around(&text, hit.start(), hit.end());
            found.push(format!(
                "\"{}\" in \"{around}\": write \"{instead}\"",
                hit.as_str()
            ));
        }
    }
    for sentence in sentences(&text) {
        let mut words = sentence
            .split_whitespace()
            .filter(|word| word.contains(char::is_alphanumeric));
        let count = words.clone().count();
        if count > LONGEST {
            found.push(format!("{count} words in \"{}\"", beginning(sentence)));
        }
        let first = words.next().unwrap_or_default();
        let relative = ["Who", "Whose", "Whom", "What", "Which"].contains(&first);
        if relative && !sentence.ends_with('?') {
            found.push(format!(
                "begins with \"{first}\": \"{}\": name the actor",
                beginning(sentence)
            ));
        }
    }
    found
}

/// Removes code, links, emphasis and line breaks from a text.
fn plain(text: &str) -> String {
    static PARTS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
        [
            ("``.*?``|`[^`]*`", "X"),
            (r"\]\([^)]*\)", "]"),
            ("<[^>]*>", " "),
            (r"[*\[\]]", ""),
            (r"\s+", " "),
        ]
        .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    });
    replaced(text, &*PARTS).trim().to_owned()
}

/// Replaces the matches of each pattern in order.
pub fn replaced(text: &str, parts: &[(Regex, &str)]) -> String {
    parts.iter().fold(text.to_owned(), |text, (pattern, with)| {
        pattern.replace_all(&text, *with).into_owned()
    })
}

/// Splits at full stops, question marks, colons and semicolons before a space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    static END: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[.!?:;] ").unwrap());
    let mut begin = 0;
    let ends = END.find_iter(text).map(|end| end.end()).chain([text.len()]);
    ends.map(move |end| {
        let sentence = text[begin..end].trim();
        begin = end;
        sentence
    })
}

fn around(text: &str, start: usize, end: usize) -> &str {
    let start = text.floor_char_boundary(start.saturating_sub(40));
    let end = text.ceil_char_boundary((end + 40).min(text.len()));
    &text[start..end]
}

fn beginning(sentence: &str) -> &str {
    &sentence[..sentence.floor_char_boundary(90.min(sentence.len()))]
}

#[test]
fn mistakes_are_found_and_plain_english_has_none() {
    let wrong = [
        "The file is read anew.",
        "Who asks is told.",
        "What is made after. The daemon ends.",
        "a key that is none",
        "the pod goes on",
        "it doesn't work",
        "images of the one that pulls",
    ];
    for text in wrong {
        assert_ne!(mistakes(text), Vec::<String>::new(), "{text}");
    }
    let right = [
        "The daemon adopts running keepers.",
        "What does it do? It pulls images.",
        "Which runtime does a pod use?",
        "`anew` is a word.",
        "[A page](https://example.com/goes on) about layers",
        "Renewed. Tone of a stone.",
    ];
    for text in right {
        assert_eq!(mistakes(text), Vec::<String>::new(), "{text}");
    }
    let long = "word ".repeat(36);
    assert!(mistakes(&long)[0].starts_with("36 words"));
    assert_eq!(
        mistakes(&long.replacen("word word", "word. Word", 9)),
        Vec::<String>::new()
    );
}
