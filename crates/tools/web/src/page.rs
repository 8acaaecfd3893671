//! The embedded files of the page.

use std::hash::{DefaultHasher, Hash, Hasher};

/// An embedded file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    name: &'static str,
    /// Content of the file.
    pub(crate) bytes: &'static [u8],
}

/// Lists the files of `page/`.
macro_rules! files {
    ($($name:literal,)*) => {
        const FILES: &[File] = &[$(File {
            name: $name,
            bytes: include_bytes!(concat!("../page/", $name)),
        },)*];
    };
}

files! {
    "app.js",
    "dom.js",
    "format.js",
    "icon.svg",
    "index.html",
    "lanes.js",
    "live.js",
    "plot.js",
    "state.js",
    "store.js",
    "style.css",
    "tree.js",
    "treemap.js",
    "view_images.js",
    "view_logs.js",
    "view_manifests.js",
    "view_networks.js",
    "view_node.js",
    "view_pod.js",
    "view_pods.js",
    "view_settings.js",
    "waterfall.js",
}

/// The HTML file of all views.
pub(crate) const INDEX: &str = "index.html";

/// Returns the file of a name.
pub(crate) fn file(name: &str) -> Option<File> {
    FILES.iter().find(|file| file.name == name).copied()
}

impl File {
    /// Returns the content type.
    pub(crate) fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("json" | "webmanifest") => "application/json",
            _ => "application/octet-stream",
        }
    }

    /// Returns an entity tag of the content.
    pub(crate) fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_files_of_the_page_are_built_in_and_are_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let there = std::fs::read_dir(folder).unwrap();
        let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = there.collect();
        let built_in = FILES.iter().map(|file| file.name.to_owned());
        assert_eq!(there, built_in.collect());
        let size: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!(size <= 150_000, "the page has {size} bytes");
        for file in FILES {
            assert_ne!(file.kind(), "application/octet-stream", "{}", file.name);
        }
    }

    /// Substrings that would interpret text as markup or script, or contact another host.
    const REFUSED: &[&str] = &[
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "eval(",
        "new Function",
        "javascript:",
        "srcdoc",
        "//cdn",
        "https://",
    ];

    #[test]
    fn text_of_strangers_never_becomes_markup() {
        for file in FILES {
            let text = str::from_utf8(file.bytes).unwrap();
            for refused in REFUSED {
                assert!(!text.contains(refused), "{}: {refused}", file.name);
            }
        }
    }
}
