//! The pod CIDR that the control plane assigns, rendered into a configuration.

use std::path::Path;

use orlop_fs::Outlives;
use orlop_template::Template;

use crate::cni::NetworkConf;
use crate::{Cidr, Error};

/// The file name of a rendered template, in the configuration directory.
pub(crate) const RENDERED: &str = "10-orlop-net.conflist";

/// Parses the CIDRs of a node: `10.1.2.0/24` or, dual stack, `10.1.2.0/24,fd00:1::/64`.
pub(crate) fn parse(text: &str) -> Result<Vec<Cidr>, Error> {
    let invalid = |problem: String| Error::PodCidr {
        value: text.chars().take(128).collect(),
        problem,
    };
    let cidrs = text
        .split(',')
        .map(|part| part.trim().parse::<Cidr>().map(|cidr| cidr.network()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(error.to_string()))?;
    if cidrs.len() > 2 || (cidrs.len() == 2 && cidrs[0].is_ipv4() == cidrs[1].is_ipv4()) {
        return Err(invalid(
            "at most one range of each address family can be used".to_owned(),
        ));
    }
    Ok(cidrs)
}

/// Renders a template in the language of Go's text/template. `.PodCIDR` is the first CIDR, `.PodCIDRRanges` all of
/// them, `.Routes` the default routes of the families in use, `.PodCIDRv4` and `.PodCIDRv6` the CIDR of one family.
/// Outside of other actions, `{{.PodCIDRRanges}}` and `{{.Routes}}` become the values of the host-local plugin's keys
/// `ranges` and `routes`.
pub(crate) fn render(template: &str, cidrs: &[Cidr]) -> Result<String, Error> {
    let first = cidrs.first().map(ToString::to_string).unwrap_or_default();
    let of = |v4: bool| {
        cidrs
            .iter()
            .find(|cidr| cidr.is_ipv4() == v4)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let ranges: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
    let default_route = |cidr: &Cidr| if cidr.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let routes: Vec<&str> = cidrs.iter().map(default_route).collect();
    let whole_ranges: Vec<_> = ranges
        .iter()
        .map(|cidr| format!("[{{ \"subnet\": \"{cidr}\" }}]"))
        .collect();
    let whole_routes: Vec<_> = routes
        .iter()
        .map(|route| format!("{{ \"dst\": \"{route}\" }}"))
        .collect();
    let template = template
        .replace("{{.PodCIDRRanges}}", &whole_ranges.join(", "))
        .replace("{{.Routes}}", &whole_routes.join(", "));
    let values = serde_json::json!({
        "PodCIDR": first,
        "PodCIDRRanges": ranges,
        "PodCIDRv4": of(true),
        "PodCIDRv6": of(false),
        "Routes": routes,
    });
    let invalid = |problem: String| Error::PodCidr {
        value: first.clone(),
        problem,
    };
    let rendered = Template::parse(&template)
        .and_then(|template| template.render(&values))
        .map_err(|error| invalid(error.to_string()))?;
    NetworkConf::from_bytes(rendered.as_bytes(), None).map_err(|error| {
        invalid(format!(
            "the rendered template cannot be used: {}",
            orlop_text::with_causes(&error)
        ))
    })?;
    Ok(rendered)
}

/// Renders the template in `template` into `conf_dir`.
pub(crate) fn write(template: &Path, conf_dir: &Path, cidrs: &[Cidr]) -> Result<(), Error> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    };
    let text =
        orlop_fs::read_text(template, orlop_fs::SMALL_FILE).map_err(failed("read", template))?;
    let rendered = render(&text, cidrs)?;
    let target = conf_dir.join(RENDERED);
    if orlop_fs::read_text(&target, orlop_fs::SMALL_FILE).is_ok_and(|now| now == rendered) {
        return Ok(());
    }
    std::fs::create_dir_all(conf_dir).map_err(failed("create", conf_dir))?;
    // The extension of the temporary file prevents that it is read as a configuration.
    orlop_fs::write_file(&target, 0o644, Outlives::PowerCut, rendered.as_bytes())
        .map_err(failed("write", &target))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge",
        "ipam":{"type":"host-local","ranges":[{{.PodCIDRRanges}}],"routes":[{{.Routes}}]}}]}"#;

    #[test]
    fn one_and_two_families() {
        let one = render(TEMPLATE, &parse("10.1.2.9/24").unwrap()).unwrap();
        assert!(one.contains(r#"[[{ "subnet": "10.1.2.0/24" }]]"#), "{one}");
        let two = render(TEMPLATE, &parse("10.1.2.0/24, fd00:1::/64").unwrap()).unwrap();
        assert!(two.contains(r#"[{ "subnet": "fd00:1::/64" }]"#), "{two}");
        assert!(
            two.contains(r#"{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }"#),
            "{two}"
        );
    }

    #[test]
    fn templates_of_containerd_are_understood() {
        let template = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge","mtu":{{if .PodCIDRv6}}1480{{else}}1500{{end}},
            "ipam":{"type":"host-local",
            "ranges":[{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
            "routes":[{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]}}]}"#;
        let two = render(template, &parse("10.1.2.0/24,fd00:1::/64").unwrap()).unwrap();
        let ranges = r#"[[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]]"#;
        assert!(two.contains(ranges), "{two}");
        let routes = r#"[{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]"#;
        assert!(two.contains(routes) && two.contains("1480"), "{two}");
        let one = render(template, &parse("10.1.2.0/24").unwrap()).unwrap();
        assert!(
            one.contains(r#""ranges":[[{"subnet": "10.1.2.0/24"}]]"#),
            "{one}"
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for text in [
            "",
            "10.1.2.3",
            "10.0.0.0/24,10.0.1.0/24",
            "10.0.0.0/8,fd00::/64,fd01::/64",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let cidrs = parse("10.0.0.0/24").unwrap();
        for template in ["{{.Unknown}}", "{{range .Routes}}", "{", r#"{"name":"n"}"#] {
            assert!(render(template, &cidrs).is_err(), "{template}");
        }
    }
}
