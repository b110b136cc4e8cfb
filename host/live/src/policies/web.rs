//! Tables of signals by URL: whoever answers at the address sends the daemon nowhere else, and what
//! it says is not repeated in messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::jiff::fmt::rfc2822;
use ureq::http::{HeaderName, HeaderValue, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::signal_table;
use super::signals::{Reply, wrong};
use crate::status::policies::{Problem, without_secrets};

/// Redirects followed, all to the same host.
const MAX_REDIRECTS: usize = 3;
/// The largest file of headers.
const HEADERS_BYTES: u64 = 64 << 10;

/// What asks addresses.
pub(super) fn agent(timeout: Duration) -> ureq::Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        // Followed here, where the address is looked at.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("longshore/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    let resolver = NotLinkLocal(DefaultResolver::default());
    ureq::Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Finds addresses of hosts, and none of the link: metadata of machines with their credentials is
/// there.
#[derive(Debug)]
struct NotLinkLocal(DefaultResolver);

impl Resolver for NotLinkLocal {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        match found.iter().any(|address| is_link_local(address.ip())) {
            true => Err(ureq::Error::Other(LinkLocal.into())),
            false => Ok(found),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("its host has a link-local address, where machines keep their credentials")]
struct LinkLocal;

fn is_link_local(address: IpAddr) -> bool {
    /// EC2's metadata by IPv6 is no address of the link.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let is_v4 = |address: Ipv4Addr| address.is_link_local();
    match address {
        IpAddr::V4(address) => is_v4(address),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || address == METADATA
                || address.to_ipv4_mapped().is_some_and(is_v4)
        }
    }
}

/// Asks an address for a table, with the headers of a file if there is one.
pub(super) fn fetch(
    agent: &ureq::Agent,
    url: &str,
    headers: Option<&Path>,
) -> Result<Reply, Problem> {
    let headers = headers.map(read_headers).transpose()?.unwrap_or_default();
    let mut at = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        match ask(agent, &at, &headers)? {
            Answer::Table(reply) => return Ok(reply),
            Answer::Elsewhere(location) => {
                at = redirected(&at, &location).map_err(|reason| Problem {
                    place: without_secrets(&at),
                    reason,
                    hint: "write the address that answers itself into `url`".into(),
                })?;
            }
        }
    }
    let reason = format!("it redirects more than {MAX_REDIRECTS} times");
    Err(wrong(without_secrets(url), reason))
}

enum Answer {
    Table(Reply),
    Elsewhere(String),
}

type Headers = Vec<(HeaderName, HeaderValue)>;

fn ask(agent: &ureq::Agent, url: &str, headers: &Headers) -> Result<Answer, Problem> {
    let place = || without_secrets(url);
    let lost = |error: ureq::Error| Problem {
        place: place(),
        reason: match error {
            ureq::Error::Other(why) => why.to_string(),
            other => other.to_string(),
        },
        hint: "check `url` from inside the daemon's pod; it is asked again by itself".into(),
    };
    let mut request = agent.get(url).header("accept", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = request.call().map_err(lost)?;
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    if response.status().is_redirection()
        && let Some(location) = header("location")
    {
        return Ok(Answer::Elsewhere(location.to_owned()));
    }
    if response.status() != 200 {
        return Err(wrong(
            place(),
            format!("it answers with status {}", response.status().as_u16()),
        ));
    }
    let modified = header("last-modified").and_then(http_date);
    let bytes = response
        .body_mut()
        .with_config()
        .limit(signal_table::MAX_BYTES)
        .read_to_vec()
        .map_err(lost)?;
    match signal_table::read(&bytes) {
        Ok(table) => Ok(Answer::Table(Reply { table, modified })),
        Err(reason) => Err(wrong(place(), reason)),
    }
}

/// Where a redirect leads to: the same host, and no longer without TLS if it was with it.
fn redirected(from: &str, location: &str) -> Result<String, String> {
    let (scheme, rest) = from.split_once("://").unwrap_or(("http", from));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let to = if location.contains("://") {
        location.to_owned()
    } else if let Some(other) = location.strip_prefix("//") {
        format!("{scheme}://{other}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let path = rest.split(['?', '#']).next().unwrap_or(rest);
        let folder = path.rfind('/').map_or(path, |end| &path[..end]);
        format!("{scheme}://{folder}/{location}")
    };
    let uri = |text: &str| text.parse::<Uri>().ok();
    let (Some(before), Some(after)) = (uri(from), uri(&to)) else {
        return Err("it redirects to something that is no address".to_owned());
    };
    match after.scheme_str() {
        Some("https") => {}
        Some("http") if scheme.eq_ignore_ascii_case("http") => {}
        _ => return Err("it redirects from https to something without TLS".to_owned()),
    }
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    let port = |uri: &Uri| uri.port_u16();
    let upgraded = before.scheme() != after.scheme();
    if host(&before) != host(&after) || (!upgraded && port(&before) != port(&after)) {
        return Err("it redirects to another host".to_owned());
    }
    Ok(to)
}

/// `Name: value` on each line. Read each time: tokens are renewed.
fn read_headers(file: &Path) -> Result<Headers, Problem> {
    let bytes = longshore_files::read(file, HEADERS_BYTES).map_err(|error| Problem {
        place: file.display().to_string(),
        reason: error.to_string(),
        hint: "check `headers-file`, and that the daemon's user may read it".into(),
    })?;
    headers(&bytes).map_err(|line| Problem {
        place: format!("{}:{line}", file.display()),
        reason: "not a header".into(),
        hint: "expected a line such as `Authorization: Bearer …`".into(),
    })
}

/// The headers, or the line that is none. What stands there may be secret.
fn headers(bytes: &[u8]) -> Result<Headers, usize> {
    let mut all = Headers::new();
    for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let header = line.iter().position(|&byte| byte == b':').and_then(|at| {
            let name = HeaderName::from_bytes(line[..at].trim_ascii()).ok()?;
            let mut value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        all.push(header.ok_or(number + 1)?);
    }
    Ok(all)
}

/// A date of HTTP, in seconds since 1970.
fn http_date(text: &str) -> Option<i64> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text);
    date.ok().map(|date| date.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_stays_on_its_host_and_keeps_tls() {
        let to = |location: &str| redirected("https://a.example:8443/data/x?q=1", location);
        let fine = |path: &str| Ok(format!("https://a.example:8443{path}"));
        assert_eq!(to("/y"), fine("/y"));
        assert_eq!(to("y.json"), fine("/data/y.json"));
        assert_eq!(
            to("https://A.example:8443/y"),
            Ok("https://A.example:8443/y".to_owned())
        );
        for elsewhere in [
            "https://b.example:8443/y",
            "//b.example/y",
            "https://a.example/y",
            "https://a.example:8443@b.example/y",
        ] {
            assert_eq!(
                to(elsewhere),
                Err("it redirects to another host".to_owned()),
                "{elsewhere}"
            );
        }
        for downgrade in [
            "http://a.example:8443/y",
            "file:///etc/passwd",
            "gopher://a.example/",
        ] {
            assert!(to(downgrade).is_err(), "{downgrade}");
        }
        let plain = |location: &str| redirected("http://a.example/x", location);
        assert_eq!(
            plain("https://a.example/x"),
            Ok("https://a.example/x".to_owned())
        );
        assert!(plain("http://169.254.169.254/latest/meta-data").is_err());
    }

    #[test]
    fn credentials_of_machines_are_no_signal() {
        for address in [
            "169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
        ] {
            assert!(is_link_local(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "fd00::1", "::1"] {
            assert!(!is_link_local(address.parse().unwrap()), "{address}");
        }
        let agent = agent(Duration::from_secs(1));
        let problem = fetch(&agent, "http://169.254.169.254/latest/user-data", None)
            .err()
            .expect("refused");
        assert!(problem.reason.contains("link-local"), "{problem}");
    }

    #[test]
    fn a_line_that_is_no_header_is_named_and_not_repeated() {
        let read =
            headers(b"# token\nAuthorization: Bearer abc:def\n\nX-Scope: cluster\r\n").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].1, "Bearer abc:def");
        assert_eq!(headers(b"A: b\nsecret\n").unwrap_err(), 2);
        assert_eq!(headers(b"A b: c\n").unwrap_err(), 1);
    }

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(
            http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        assert_eq!(http_date("yesterday"), None);
    }
}
