//! FlatBuffers, built from the front: what is referred to is appended, and the reference filled in.

/// What a field of a table is.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Byte(i8),
    Int(i32),
    Long(i64),
    Bytes(Vec<u8>),
    Table(Vec<Value>),
    Vector(Vec<Value>),
}

/// A buffer of a table.
pub(super) fn build(root: &[Value]) -> Vec<u8> {
    let mut buffer = vec![0; 4];
    let at = table(&mut buffer, root);
    refer(&mut buffer, 0, at);
    buffer
}

fn refer(buffer: &mut [u8], from: usize, to: usize) {
    buffer[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
}

fn table(buffer: &mut Vec<u8>, fields: &[Value]) -> usize {
    let vtable = buffer.len();
    let size = |value: &Value| match value {
        Value::None => 0,
        Value::Byte(_) => 1,
        Value::Long(_) => 8,
        _ => 4,
    };
    let length: usize = fields.iter().map(size).sum();
    buffer.extend((4 + 2 * fields.len() as u16).to_le_bytes());
    buffer.extend((4 + length as u16).to_le_bytes());
    let mut at = 4_u16;
    for field in fields {
        let place = if size(field) == 0 { 0 } else { at };
        buffer.extend(place.to_le_bytes());
        at += size(field) as u16;
    }
    let begin = buffer.len();
    buffer.extend(((begin - vtable) as i32).to_le_bytes());
    let mut waiting = Vec::new();
    for field in fields {
        match field {
            Value::None => {}
            Value::Byte(value) => buffer.extend(value.to_le_bytes()),
            Value::Int(value) => buffer.extend(value.to_le_bytes()),
            Value::Long(value) => buffer.extend(value.to_le_bytes()),
            value => {
                waiting.push((buffer.len(), value));
                buffer.extend([0; 4]);
            }
        }
    }
    for (from, value) in waiting {
        let to = other(buffer, value);
        refer(buffer, from, to);
    }
    begin
}

fn other(buffer: &mut Vec<u8>, value: &Value) -> usize {
    match value {
        Value::Table(fields) => table(buffer, fields),
        Value::Bytes(bytes) => {
            let at = buffer.len();
            buffer.extend((bytes.len() as u32).to_le_bytes());
            buffer.extend(bytes);
            at
        }
        Value::Vector(values) => {
            let at = buffer.len();
            buffer.extend((values.len() as u32).to_le_bytes());
            buffer.resize(at + 4 + values.len() * 4, 0);
            for (number, value) in values.iter().enumerate() {
                let to = other(buffer, value);
                refer(buffer, at + 4 + number * 4, to);
            }
            at
        }
        _ => unreachable!("it stands in the table"),
    }
}

pub(super) fn text(text: impl AsRef<[u8]>) -> Value {
    Value::Bytes(text.as_ref().to_vec())
}
