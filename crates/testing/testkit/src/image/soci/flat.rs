//! Writer of FlatBuffers, front to back: referenced data is appended, then the reference is filled in.

/// Value of a table field.
#[derive(Debug, Clone)]
pub enum Value {
    /// Omitted field.
    None,
    /// 8-bit integer.
    Byte(i8),
    /// 32-bit integer.
    Int(i32),
    /// 64-bit integer.
    Long(i64),
    /// Bytes or text.
    Bytes(Vec<u8>),
    /// A table.
    Table(Vec<Value>),
    /// Vector of values that are stored outside of a table.
    Vector(Vec<Value>),
}

impl Value {
    /// Creates a text.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Bytes(text.as_ref().to_vec())
    }

    /// Returns the bytes that it takes in the table itself.
    fn room(&self) -> u16 {
        match self {
            Self::None => 0,
            Self::Byte(_) => 1,
            Self::Long(_) => 8,
            _ => 4,
        }
    }
}

/// Builds a buffer with this root table.
pub fn build(root: &[Value]) -> Vec<u8> {
    let mut buffer = vec![0; 4];
    let at = table(&mut buffer, root);
    refer(&mut buffer, 0, at);
    buffer
}

fn refer(buffer: &mut [u8], from: usize, to: usize) {
    let forward = u32::try_from(to - from).expect("a buffer has less than 4 GiB");
    buffer[from..from + 4].copy_from_slice(&forward.to_le_bytes());
}

/// Writes a table after its vtable, which holds the field positions.
fn table(buffer: &mut Vec<u8>, fields: &[Value]) -> usize {
    let begin = buffer.len();
    let length: u16 = fields.iter().map(Value::room).sum();
    buffer.extend((4 + 2 * fields.len() as u16).to_le_bytes());
    buffer.extend((4 + length).to_le_bytes());
    let mut at = 4_u16;
    for field in fields {
        let place = if field.room() == 0 { 0 } else { at };
        buffer.extend(place.to_le_bytes());
        at += field.room();
    }
    let table = buffer.len();
    buffer.extend(((table - begin) as i32).to_le_bytes());
    let mut waiting = Vec::new();
    for field in fields {
        match field {
            Value::None => {}
            Value::Byte(value) => buffer.extend(value.to_le_bytes()),
            Value::Int(value) => buffer.extend(value.to_le_bytes()),
            Value::Long(value) => buffer.extend(value.to_le_bytes()),
            elsewhere => {
                waiting.push((buffer.len(), elsewhere));
                buffer.extend([0; 4]);
            }
        }
    }
    for (from, value) in waiting {
        let to = elsewhere(buffer, value);
        refer(buffer, from, to);
    }
    table
}

/// Writes data that is stored outside of a table.
fn elsewhere(buffer: &mut Vec<u8>, value: &Value) -> usize {
    let at = buffer.len();
    match value {
        Value::Table(fields) => table(buffer, fields),
        Value::Bytes(bytes) => {
            buffer.extend((bytes.len() as u32).to_le_bytes());
            buffer.extend(bytes);
            // Readers in other languages expect a NUL after text.
            buffer.push(0);
            at
        }
        Value::Vector(values) => {
            buffer.extend((values.len() as u32).to_le_bytes());
            buffer.resize(at + 4 + values.len() * 4, 0);
            for (number, value) in values.iter().enumerate() {
                let to = elsewhere(buffer, value);
                refer(buffer, at + 4 + number * 4, to);
            }
            at
        }
        _ => unreachable!("it stands in the table"),
    }
}
