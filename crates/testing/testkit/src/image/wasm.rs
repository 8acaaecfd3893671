//! WebAssembly modules, assembled byte by byte, and their OCI artifacts.

use serde_json::{Value, json};

use super::blob::{Blob, Hash, digest};
use super::built::BuiltImage;

const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// End of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Exits with this code.
    Code(u8),
    /// Never ends, and uses a full CPU.
    Never,
}

/// Returns a module that prints its arguments, its environment and a text (`WASI`, preview 1). Each argument and
/// variable is followed by a NUL.
pub fn module(text: &str, ending: Ending) -> Vec<u8> {
    const COUNT: i32 = 0;
    const SIZE: i32 = 4;
    const PIECE: i32 = 8;
    const PIECE_SIZE: i32 = 12;
    const WRITTEN: i32 = 16;
    const POINTERS: i32 = 0x2000;
    const WORDS: i32 = 0x4000;
    const TEXT: i32 = 0x1000;
    // Imported functions are numbered in order.
    const WRITE: u8 = 4;
    const EXIT: u8 = 5;
    // Types: two and four numbers to one, one to none, none to none.
    let two = function_type(2, true);
    let four = function_type(4, true);
    let types = vector([two, four, function_type(1, false), function_type(0, false)]);
    let import = |name: &str, kind: u8| {
        let mut import = bytes(b"wasi_snapshot_preview1");
        import.extend(bytes(name.as_bytes()));
        import.extend([0x00, kind]);
        import
    };
    let imports = vector([
        import("args_sizes_get", 0),
        import("args_get", 0),
        import("environ_sizes_get", 0),
        import("environ_get", 0),
        import("fd_write", 1),
        import("proc_exit", 2),
    ]);
    let mut code = Code::default();
    for (sizes, get) in [(0, 1), (2, 3)] {
        code.number(COUNT).number(SIZE).call(sizes).drop();
        code.number(POINTERS).number(WORDS).call(get).drop();
        code.number(PIECE).number(WORDS).store();
        code.number(PIECE_SIZE).number(SIZE).load().store();
        code.number(1).number(PIECE).number(1).number(WRITTEN);
        code.call(WRITE).drop();
    }
    code.number(PIECE).number(TEXT).store();
    code.number(PIECE_SIZE).number(text.len() as i32).store();
    code.number(1).number(PIECE).number(1).number(WRITTEN);
    code.call(WRITE).drop();
    match ending {
        Ending::Code(status) => {
            code.number(status.into()).call(EXIT);
        }
        // loop, br 0, end
        Ending::Never => code.0.extend([0x03, 0x40, 0x0c, 0x00, 0x0b]),
    }
    // No locals; the end of the function.
    let mut body = vec![0x00];
    body.extend(code.0);
    body.push(0x0b);
    let mut start = bytes(b"_start");
    start.extend([0x00, 6]);
    let mut memory = bytes(b"memory");
    memory.extend([0x02, 0x00]);
    let mut data = vec![0x00, 0x41];
    data.extend(signed(TEXT));
    data.push(0x0b);
    data.extend(bytes(text.as_bytes()));
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for (id, section) in [
        (1, types),
        (2, imports),
        // One function without parameters and results.
        (3, vec![1, 3]),
        // One memory of at least one page of 64 KiB.
        (5, vec![1, 0, 1]),
        (7, vector([start, memory])),
        (10, vector([bytes(&body)])),
        (11, vector([data])),
    ] {
        module.push(id);
        module.extend(bytes(&section));
    }
    module
}

#[derive(Default)]
struct Code(Vec<u8>);

impl Code {
    /// i32.const
    fn number(&mut self, number: i32) -> &mut Self {
        self.0.push(0x41);
        self.0.extend(signed(number));
        self
    }

    fn call(&mut self, function: u8) -> &mut Self {
        self.0.extend([0x10, function]);
        self
    }

    fn drop(&mut self) -> &mut Self {
        self.0.push(0x1a);
        self
    }

    /// i32.load, aligned to four bytes
    fn load(&mut self) -> &mut Self {
        self.0.extend([0x28, 2, 0]);
        self
    }

    /// i32.store, aligned to four bytes
    fn store(&mut self) -> &mut Self {
        self.0.extend([0x36, 2, 0]);
        self
    }
}

/// Type of a function with this many parameters.
fn function_type(numbers: u8, gives_one: bool) -> Vec<u8> {
    let mut kind = vec![0x60, numbers];
    kind.extend(std::iter::repeat_n(0x7f, numbers.into()));
    kind.extend(if gives_one { &[1, 0x7f][..] } else { &[0] });
    kind
}

fn vector<const N: usize>(items: [Vec<u8>; N]) -> Vec<u8> {
    let mut vector = unsigned(N);
    vector.extend(items.concat());
    vector
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    let mut counted = unsigned(bytes.len());
    counted.extend(bytes);
    counted
}

/// LEB128.
fn unsigned(mut number: usize) -> Vec<u8> {
    let mut encoded = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            encoded.push(low);
            return encoded;
        }
        encoded.push(low | 0x80);
    }
}

/// Signed LEB128.
fn signed(mut number: i32) -> Vec<u8> {
    let mut encoded = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        let sign = low & 0x40 != 0;
        if (number == 0 && !sign) || (number == -1 && sign) {
            encoded.push(low);
            return encoded;
        }
        encoded.push(low | 0x80);
    }
}

impl BuiltImage {
    /// Creates an artifact of CNCF's "Wasm OCI Artifact Layout".
    pub fn wasm_artifact(module: &[u8]) -> Self {
        let config = json!({
            "created": "2023-11-14T22:13:20Z",
            "architecture": "wasm",
            "os": "wasip1",
            "layerDigests": [digest(module)],
        });
        let kind = "application/vnd.wasm.config.v0+json";
        Self::of_module(kind, &config, &[("application/wasm", module)])
    }

    /// Creates an image with the module as a layer, as runwasi's `oci-tar-builder` does.
    pub fn wasm_image(module: &[u8], entrypoint: &[&str]) -> Self {
        let hex = digest(module).replace("sha256:", "");
        let all = digest(hex.as_bytes()).replace("sha256:", "");
        let config = json!({
            "architecture": "wasm",
            "os": "wasip1",
            "config": {
                "Entrypoint": entrypoint,
                "Labels": { "containerd.runwasi.layers": all },
            },
            "rootfs": { "type": "layers", "diff_ids": [] },
        });
        let layer = "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm";
        Self::of_module(OCI_CONFIG, &config, &[(layer, module)])
    }

    /// Creates any artifact from its type, its configuration, and its layers with their media types.
    pub fn of_module(kind: &str, config: &Value, layers: &[(&str, &[u8])]) -> Self {
        let layers = layers.iter();
        let layers = layers.map(|(kind, bytes)| Blob::new(kind, bytes.to_vec(), Hash::Sha256));
        Self::of_blobs(Blob::json(kind, config), layers.collect(), json!({}))
    }

    /// Creates an index of images, each with its platform; `config` is the first's.
    pub fn index_of(images: Vec<(Self, Value)>) -> Self {
        let entry = |(image, platform): &(Self, Value)| {
            let mut entry = image.top.descriptor();
            entry["platform"] = platform.clone();
            entry
        };
        let index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": images.iter().map(entry).collect::<Vec<_>>(),
        });
        let mut images = images.into_iter().map(|(image, _)| image);
        let mut first = images.next().expect("an image");
        let top = Blob::json(OCI_INDEX, &index);
        first.manifests.push(std::mem::replace(&mut first.top, top));
        for other in images {
            first.manifests.push(other.top);
            first.other_configs.push(other.config);
            first.layers.extend(other.layers);
        }
        first
    }
}
