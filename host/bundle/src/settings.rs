//! What the configuration says of registries and of keys.

use std::path::PathBuf;

use serde::Deserialize;

use crate::reference::is_host;

/// One registry: `[registries."host"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RegistrySettings {
    /// A `.dockerconfigjson`, read again each time the registry asks for credentials.
    pub auth_file: Option<PathBuf>,
    /// Certificate authorities in PEM: these alone are trusted for what this registry is asked, its
    /// tokens and its redirects.
    pub ca_file: Option<PathBuf>,
    /// A host, and perhaps a path, that is asked first. Its own settings are under its own host.
    pub mirror: Option<String>,
    /// Without TLS: on loopback, elsewhere only with `insecure`.
    pub plain_http: bool,
    /// Allows `plain-http` to other machines, where everybody on the way reads the credentials.
    pub insecure: bool,
}

impl RegistrySettings {
    /// Whether the settings of this host can be used.
    ///
    /// # Errors
    /// What is wrong and what can be done.
    pub fn check(&self, host: &str) -> Result<(), SettingsError> {
        let wrong = |key, reason: String, hint| Err(SettingsError { key, reason, hint });
        let lower = host.to_ascii_lowercase();
        if !is_host(host) || lower != host || host.ends_with(":443") {
            let hint = "write host and port as in `oci`, in lower case, without a scheme and \
                        without `:443`";
            return wrong(None, format!("`{host}` is not a registry"), hint);
        }
        if self.plain_http && !self.insecure && !is_loopback(host) {
            let reason = format!("`plain-http` to {host}, which is not this machine");
            let hint = "use TLS with `ca-file`, or add `insecure = true`";
            return wrong(Some("plain-http"), reason, hint);
        }
        if self.insecure && !self.plain_http {
            let reason = "`insecure` only allows `plain-http`".into();
            return wrong(Some("insecure"), reason, "remove it, or add `plain-http`");
        }
        match self.mirror.as_deref() {
            Some(mirror) if mirror.contains("://") || !is_host(mirror_host(mirror)) => {
                let reason =
                    format!("`mirror` is `{mirror}`: expected a host, perhaps with a path");
                let hint = "write it as in `oci`, without a scheme";
                wrong(Some("mirror"), reason, hint)
            }
            _ => Ok(()),
        }
    }
}

/// Why the settings of a registry cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{reason}: {hint}")]
pub struct SettingsError {
    /// The key; none for the host itself.
    pub key: Option<&'static str>,
    /// What is wrong.
    pub reason: String,
    /// What can be done.
    pub hint: &'static str,
}

pub(crate) fn mirror_host(mirror: &str) -> &str {
    mirror.split_once('/').map_or(mirror, |(host, _)| host)
}

/// A key whose signature is demanded: `[[trust]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrustSettings {
    /// A public key in PEM, P-256.
    pub key_file: PathBuf,
    /// Which references: `host/repository` or the path of a layout, `*` for any characters.
    #[serde(rename = "for")]
    pub names: Vec<String>,
}

impl TrustSettings {
    /// Whether a reference of that name needs a signature by this key.
    pub fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| matches(pattern, name))
    }
}

/// `*` stands for any characters, `/` among them: what is covered too much is refused aloud, what
/// is covered too little would run unsigned.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether a host is this machine, by its name alone: no resolver is asked.
pub(crate) fn is_loopback(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split_once(']').map_or(rest, |(address, _)| address);
        return address
            .parse::<std::net::Ipv6Addr>()
            .is_ok_and(|a| a.is_loopback());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let address = name.parse::<std::net::Ipv4Addr>();
    name == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{RegistrySettings, TrustSettings, is_loopback, matches};

    #[test]
    fn settings_are_read_in_kebab_case() {
        let text = "auth-file = 'a'\nca-file = 'b'\nmirror = 'c:1'\nplain-http = true";
        let is: RegistrySettings = toml::from_str(text).unwrap();
        assert_eq!(is.auth_file.unwrap().to_str(), Some("a"));
        assert!(is.plain_http && !is.insecure);
        let unknown = toml::from_str::<RegistrySettings>("auth_file = 'a'");
        assert!(unknown.unwrap_err().to_string().contains("unknown field"));
        let is: TrustSettings = toml::from_str("key-file = 'k'\nfor = ['r.e/*']").unwrap();
        assert!(is.covers("r.e/a/b") && !is.covers("r.ee/a"));
    }

    #[test]
    fn plain_http_stays_on_the_machine_unless_told() {
        let mut is = RegistrySettings {
            plain_http: true,
            ..Default::default()
        };
        assert!(is.check("127.0.0.1:5000").is_ok() && is.check("[::1]:5000").is_ok());
        assert!(
            is.check("reg.example")
                .unwrap_err()
                .hint
                .contains("insecure = true")
        );
        is.insecure = true;
        assert!(is.check("reg.example").is_ok());
        is.plain_http = false;
        assert!(is.check("reg.example").is_err());
    }

    #[test]
    fn a_name_that_only_looks_like_loopback_is_none() {
        assert!(is_loopback("localhost:80") && is_loopback("127.9.9.9"));
        assert!(!is_loopback("localhost.example") && !is_loopback("127.0.0.1.example"));
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("*", "a/b") && matches("a/*/c", "a/b/b/c") && matches("a/b", "a/b"));
        assert!(!matches("a/b", "a/bc") && !matches("a/*", "b/a/") && !matches("a*a", "a"));
    }
}
