//! The connected NRI plugins as JSON, for debugging.

use orlop_nri::{Listen, Nri};
use serde_json::{Value, json};

/// Describes the connected plugins.
pub fn in_json(nri: &Nri) -> Value {
    let Some(config) = nri.config() else {
        return json!({ "enabled": false });
    };
    let plugins = nri.list().into_iter();
    json!({
        "enabled": true,
        "version": orlop_nri::VERSION,
        "socket": match &config.listen {
            Listen::At(path) if nri.is_listening() => Some(path),
            _ => None,
        },
        "plugins": plugins.map(|plugin| json!({
            "index": plugin.index,
            "name": plugin.name,
            "version": plugin.version,
            "pid": plugin.pid,
            "launched": plugin.launched,
        })).collect::<Vec<_>>(),
    })
}
