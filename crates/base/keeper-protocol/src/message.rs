//! Messages: structs whose members are encoded as tagged fields.

use crate::codec::Malformed;

/// A struct that is encoded as tagged fields.
pub trait Message: Default {
    /// Appends the fields to `out`.
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes the fields; unknown ones are skipped, missing ones get their defaults.
    fn decode(payload: &[u8]) -> Result<Self, Malformed>;
}

/// A message with its own frame.
pub trait Body: Message {
    /// The frame's kind.
    const KIND: u16;
}

/// A message to which the keeper answers with `Reply`, or with a [`Failure`](crate::Failure).
pub trait Request: Body {
    /// The reply on success.
    type Reply: Body;
}

/// Declares messages: `struct Name [= kind [-> Reply]] { tag field: Type, … }`.
macro_rules! messages {
    ($(
        $(#[$meta:meta])*
        struct $name:ident $(= $kind:literal $(-> $reply:ty)?)? {
            $( $(#[$field_meta:meta])* $tag:literal $field:ident : $type:ty, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::message::Message for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $( $crate::codec::Field::put(&self.$field, $tag, out); )*
            }

            fn decode(payload: &[u8]) -> Result<Self, $crate::codec::Malformed> {
                #[allow(unused_mut, reason = "a message may have no fields")]
                let mut message = Self::default();
                for field in $crate::codec::Fields(payload) {
                    let (tag, _raw) = field?;
                    match tag {
                        $( $tag => $crate::codec::Field::take(&mut message.$field, _raw)?, )*
                        _ => {}
                    }
                }
                Ok(message)
            }
        }

        impl $crate::codec::Value for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $crate::message::Message::encode(self, out);
            }

            fn read(raw: &[u8]) -> Result<Self, $crate::codec::Malformed> {
                $crate::message::Message::decode(raw)
            }
        }

        $(
            impl $crate::message::Body for $name {
                const KIND: u16 = $kind;
            }
            $(
                impl $crate::message::Request for $name {
                    type Reply = $reply;
                }
            )?
        )?
    )*};
}
pub(crate) use messages;

/// Declares an enumeration that is encoded as a number; an unknown number becomes the default.
macro_rules! numbered {
    ($(
        $(#[$meta:meta])*
        enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $number:literal, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $number, )*
        }

        impl $crate::codec::Value for $name {
            fn write(&self, out: &mut Vec<u8>) {
                (*self as u16).write(out);
            }

            fn read(raw: &[u8]) -> Result<Self, $crate::codec::Malformed> {
                Ok(match <u16 as $crate::codec::Value>::read(raw)? {
                    $( $number => Self::$variant, )*
                    _ => Self::default(),
                })
            }
        }
    )*};
}
pub(crate) use numbered;
