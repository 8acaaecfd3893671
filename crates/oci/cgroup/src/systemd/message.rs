//! D-Bus messages: the part of the format that calls to systemd need, little-endian.

/// Message types of the specification.
const CALL: u8 = 1;
const REPLY: u8 = 2;
const ERROR: u8 = 3;

/// Header fields of the specification.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// The largest message of the specification.
pub(super) const MAX_MESSAGE: usize = 128 << 20;

/// The fixed part of the header: everything up to the length of the field array.
pub(super) const FIXED: usize = 16;

/// The method to call, and its object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) method: &'a str,
}

/// Arguments that are being encoded.
#[derive(Debug, Clone, Default)]
pub(super) struct Body {
    signature: &'static str,
    bytes: Vec<u8>,
}

impl Body {
    /// Returns an empty body for values of these types.
    pub(super) fn new(signature: &'static str) -> Self {
        Self {
            signature,
            bytes: Vec::new(),
        }
    }

    pub(super) fn align(&mut self, to: usize) {
        while !self.bytes.len().is_multiple_of(to) {
            self.bytes.push(0);
        }
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.align(4);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.align(8);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends a string or an object path.
    pub(super) fn text(&mut self, value: &str) {
        self.u32(value.len() as u32);
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
    }

    pub(super) fn signature(&mut self, value: &str) {
        self.byte(value.len() as u8);
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
    }

    /// Appends an array whose elements are aligned to this many bytes.
    pub(super) fn array(&mut self, alignment: usize, fill: impl FnOnce(&mut Self)) {
        self.u32(0);
        let length_at = self.bytes.len() - 4;
        // The length excludes the padding before the first element.
        self.align(alignment);
        let start = self.bytes.len();
        fill(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Encodes a method call.
pub(super) fn encode(call: &Call<'_>, serial: u32, body: &Body) -> Vec<u8> {
    let mut message = Body::default();
    message.byte(b'l');
    message.byte(CALL);
    message.byte(0);
    message.byte(1);
    message.u32(body.bytes.len() as u32);
    message.u32(serial);
    message.array(8, |fields| {
        let mut field = |code: u8, kind: &str, value: &str| {
            fields.align(8);
            fields.byte(code);
            fields.signature(kind);
            if kind == "g" {
                fields.signature(value);
            } else {
                fields.text(value);
            }
        };
        field(PATH, "o", call.path);
        field(INTERFACE, "s", call.interface);
        field(MEMBER, "s", call.method);
        field(DESTINATION, "s", call.destination);
        if !body.signature.is_empty() {
            field(SIGNATURE, "g", body.signature);
        }
    });
    message.align(8);
    message.bytes.extend(&body.bytes);
    message.bytes
}

/// Returns the length of a whole message, from the fixed part of its header.
pub(super) fn length(fixed: &[u8; FIXED]) -> Result<usize, String> {
    if fixed[0] != b'l' {
        return Err("the response is not little-endian".to_owned());
    }
    let number = |at: usize| {
        u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]) as usize
    };
    let length = (FIXED + number(12)).next_multiple_of(8) + number(4);
    if length > MAX_MESSAGE {
        Err("the response is too long".to_owned())
    } else {
        Ok(length)
    }
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// The reply to the call with this serial number. `text` is its first value, or a property's value, if that is a
    /// string.
    Reply { serial: u32, text: Option<String> },
    /// The call with this serial number failed.
    Failure { serial: u32, problem: String },
    /// Any other message.
    Other,
}

/// Decodes a whole message.
pub(super) fn decode(message: &[u8]) -> Result<Incoming, String> {
    let broken = || "the response is malformed".to_owned();
    let fixed: &[u8; FIXED] = message.first_chunk().ok_or_else(broken)?;
    let fields_length = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]) as usize;
    let fields_end = FIXED.checked_add(fields_length).ok_or_else(broken)?;
    let mut fields = Reader {
        bytes: message.get(..fields_end).ok_or_else(broken)?,
        at: FIXED,
    };
    let (mut serial, mut error, mut signature) = (None, None, "");
    while fields.at < fields_end {
        fields.align(8);
        let code = fields.byte().ok_or_else(broken)?;
        let kind = fields.signature().ok_or_else(broken)?;
        match kind {
            "u" => {
                let value = fields.u32().ok_or_else(broken)?;
                if code == REPLY_SERIAL {
                    serial = Some(value);
                }
            }
            "s" | "o" => {
                let value = fields.text().ok_or_else(broken)?;
                if code == ERROR_NAME {
                    error = Some(value);
                }
            }
            "g" => {
                let value = fields.signature().ok_or_else(broken)?;
                if code == SIGNATURE {
                    signature = value;
                }
            }
            _ => return Err(broken()),
        }
    }
    let mut body = Reader {
        bytes: message,
        at: fields_end.next_multiple_of(8),
    };
    // A variant contains its own type.
    if signature == "v" {
        signature = body.signature().ok_or_else(broken)?;
    }
    let text = if signature.starts_with(['s', 'o']) {
        body.text().map(str::to_owned)
    } else {
        None
    };
    Ok(match (fixed[1], serial) {
        (REPLY, Some(serial)) => Incoming::Reply { serial, text },
        (ERROR, Some(serial)) => {
            let name = error.unwrap_or("an unnamed D-Bus error");
            let problem = text.map_or_else(|| name.to_owned(), |text| format!("{text} ({name})"));
            Incoming::Failure { serial, problem }
        }
        _ => Incoming::Other,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn byte(&mut self) -> Option<u8> {
        let value = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(value)
    }

    fn u32(&mut self) -> Option<u32> {
        self.align(4);
        let value = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += 4;
        Some(u32::from_le_bytes(*value))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn signature(&mut self) -> Option<&'a str> {
        let length = usize::from(self.byte()?);
        self.take(length)
    }

    /// Takes a string of this length and its NUL.
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let end = self.at.checked_add(length)?;
        let value = std::str::from_utf8(self.bytes.get(self.at..end)?).ok()?;
        self.at = end + 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call<'static> {
        Call {
            destination: "a.b",
            path: "/a",
            interface: "a.c",
            method: "M",
        }
    }

    #[test]
    fn a_message_has_the_length_its_header_says() {
        for text in ["", "x", "longer text"] {
            let mut body = Body::new("s");
            body.text(text);
            let message = encode(&call(), 7, &body);
            assert_eq!(
                length(message.first_chunk().unwrap()).unwrap(),
                message.len(),
                "{text}"
            );
        }
    }

    /// Returns a message as `dbus-daemon` sends it.
    fn by_hand(kind: u8, body: &Body, fields: impl FnOnce(&mut Body)) -> Body {
        let mut message = Body::default();
        for byte in [b'l', kind, 1, 1] {
            message.byte(byte);
        }
        message.u32(body.bytes.len() as u32);
        message.u32(9);
        message.array(8, fields);
        message.align(8);
        message.bytes.extend(&body.bytes);
        message
    }

    /// Returns an error as `dbus-daemon` sends it, encoded by hand.
    #[test]
    fn an_error_tells_its_name_and_text() {
        let mut body = Body::new("s");
        body.text("no such unit");
        let message = by_hand(ERROR, &body, |fields| {
            fields.byte(ERROR_NAME);
            fields.signature("s");
            fields.text("a.NoSuchUnit");
            fields.align(8);
            fields.byte(REPLY_SERIAL);
            fields.signature("u");
            fields.u32(5);
            fields.align(8);
            fields.byte(SIGNATURE);
            fields.signature("g");
            fields.signature("s");
        });
        let problem = "no such unit (a.NoSuchUnit)".to_owned();
        assert_eq!(
            decode(&message.bytes),
            Ok(Incoming::Failure { serial: 5, problem })
        );
    }

    /// A property's value contains its own type.
    #[test]
    fn a_property_is_a_text_or_not() {
        let answer = |fill: &dyn Fn(&mut Body)| {
            let mut body = Body::new("v");
            fill(&mut body);
            let message = by_hand(REPLY, &body, |fields| {
                fields.byte(REPLY_SERIAL);
                fields.signature("u");
                fields.u32(5);
                fields.align(8);
                fields.byte(SIGNATURE);
                fields.signature("g");
                fields.signature("v");
            });
            decode(&message.bytes)
        };
        let reply = |text: Option<&str>| {
            let text = text.map(str::to_owned);
            Ok(Incoming::Reply { serial: 5, text })
        };
        let text = |body: &mut Body| {
            body.signature("s");
            body.text("/user.slice");
        };
        assert_eq!(answer(&text), reply(Some("/user.slice")));
        let number = |body: &mut Body| {
            body.signature("u");
            body.u32(7);
        };
        assert_eq!(answer(&number), reply(None));
        assert!(answer(&|_| {}).is_err());
    }

    #[test]
    fn broken_messages_are_errors_and_not_panics() {
        let mut body = Body::new("s");
        body.text("text");
        let message = encode(&call(), 1, &body);
        for end in 0..message.len() {
            let _ = decode(&message[..end]);
        }
        for at in 0..message.len() {
            let mut broken = message.clone();
            broken[at] = 0xff;
            let _ = decode(&broken);
        }
        assert!(length(b"B\x01\0\x01aaaabbbbcccc").is_err());
        assert!(
            length(&[
                b'l', 1, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255
            ])
            .is_err()
        );
    }
}
