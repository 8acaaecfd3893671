//! Special keys in WebDriver's encoding (W3C WebDriver, 17.4.2), and the keyboard.

use serde_json::{Value, json};

use super::page::Browser;

/// Backspace.
pub const BACKSPACE: char = '\u{E003}';
/// Tab.
pub const TAB: char = '\u{E004}';
/// Enter.
pub const ENTER: char = '\u{E007}';
/// Shift.
pub const SHIFT: char = '\u{E008}';
/// Control.
pub const CONTROL: char = '\u{E009}';
/// Alt.
pub const ALT: char = '\u{E00A}';
/// Escape.
pub const ESCAPE: char = '\u{E00C}';
/// The space bar.
pub const SPACE: char = ' ';
/// Page up.
pub const PAGE_UP: char = '\u{E00E}';
/// Page down.
pub const PAGE_DOWN: char = '\u{E00F}';
/// End.
pub const END: char = '\u{E010}';
/// Home.
pub const HOME: char = '\u{E011}';
/// Left arrow.
pub const LEFT: char = '\u{E012}';
/// Up arrow.
pub const UP: char = '\u{E013}';
/// Right arrow.
pub const RIGHT: char = '\u{E014}';
/// Down arrow.
pub const DOWN: char = '\u{E015}';
/// Delete.
pub const DELETE: char = '\u{E017}';

impl Browser {
    /// Presses and releases keys one after the other in the focused element.
    pub async fn keys(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| [down(key), up(key)]);
        self.act(strokes.collect()).await;
    }

    /// Presses keys together: `&[SHIFT, TAB]`.
    pub async fn chord(&self, keys: &[char]) {
        let pressed = keys.iter().map(|&key| down(key));
        let released = keys.iter().rev().map(|&key| up(key));
        self.act(pressed.chain(released).collect()).await;
    }

    async fn act(&self, strokes: Vec<Value>) {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", json!({ "actions": [keyboard] }))
            .await;
    }
}

fn down(key: char) -> Value {
    json!({ "type": "keyDown", "value": key.to_string() })
}

fn up(key: char) -> Value {
    json!({ "type": "keyUp", "value": key.to_string() })
}
