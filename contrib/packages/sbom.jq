# Makes a CycloneDX document of the lists of crates of several programs (contrib/packages/sbom).
def key: "\(.name) \(.version)";
def purl: "pkg:cargo/\(.name)@\(.version | @uri)";
# A crate of this project is in no registry and has no purl: another crate may have its name there.
def reference: if .source == "local" then "\(.name)@\(.version)" else purl end;
def licence: $licences[0][key] // "" | if . == "" then error("\(key) is not in Cargo.lock, or has no licence") else [{expression: .}] end;
def checksum: $checksums[0][key] // error("\(key) is not in Cargo.lock");

def crate:
    {type: "library", "bom-ref": reference, name, version, scope: (if .kind == "build" then "excluded" else "required" end)}
    + (if .source == "local" then {} else {hashes: [{alg: "SHA-256", content: checksum}], purl: purl} end)
    + {licenses: licence};
def program:
    {type: "application", "bom-ref": "program:\(.program)", name: .program, version: $version, scope: "required",
     hashes: [{alg: "SHA-256", content: .sha}], licenses: [{expression: "Apache-2.0"}]};
def toolchain:
    {type: "library", "bom-ref": "rust@\(.)", name: "rust", version: ., scope: "required",
     description: "the standard library, and in static programs the musl that comes with it",
     licenses: [{expression: "MIT OR Apache-2.0"}], cpe: "cpe:2.3:a:rust-lang:rust:\(.):*:*:*:*:*:*:*"};

. as $programs
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
        timestamp: $time,
        component: {type: "application", "bom-ref": "orlop", name: "orlop", version: $version,
                    licenses: [{expression: "Apache-2.0"}]}
    },
    components: (
        [$programs[] | program]
        + ([$programs[].rust | select(. != "")] | unique | map(toolchain))
        # What one program needs only to be built may be a part of another.
        + ([$programs[].crates[] | crate] | group_by(.["bom-ref"]) | map(sort_by(.scope) | last))
    ),
    dependencies: (
        [{ref: "orlop", dependsOn: [$programs[] | "program:\(.program)"]}]
        + [$programs[] | {ref: "program:\(.program)", dependsOn:
            ([(.crates[] | select(.root) | reference), (.rust | select(. != "") | "rust@\(.)")])}]
        + ([$programs[] | .crates as $crates | $crates[]
            | {ref: reference, dependsOn: [.dependencies[]? | $crates[.] | reference]}]
            | group_by(.ref) | map({ref: .[0].ref, dependsOn: (map(.dependsOn[]) | unique)}))
    )
}
