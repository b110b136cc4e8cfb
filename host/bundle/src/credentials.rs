//! Credentials of a registry, from the `.dockerconfigjson` of a Kubernetes secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The value of an `Authorization` header for a repository; nothing if the file has none for it.
///
/// Keys are a host, with or without scheme, `/v1/`, `/v2/` or a path; a label of the host may be
/// `*`. The longest path wins, and a host before a `*`.
///
/// # Errors
/// The file cannot be used. What it holds is never said.
pub(crate) fn basic(file: &[u8], host: &str, repository: &str) -> Result<Option<String>, String> {
    let at =
        |error: &serde_json::Error| format!("line {}, column {}", error.line(), error.column());
    let file: File = serde_json::from_slice(file)
        .map_err(|error| format!("it is not a .dockerconfigjson ({})", at(&error)))?;
    let best = file
        .auths
        .iter()
        .filter_map(|(key, entry)| Some((fit(key, host, repository)?, key, entry)))
        .max_by_key(|(fit, ..)| *fit);
    let Some((_, key, entry)) = best else {
        return Ok(None);
    };
    let pair = entry
        .pair()
        .map_err(|why| format!("`auths.\"{key}\"` {why}"))?;
    Ok(Some(format!("Basic {}", STANDARD.encode(pair))))
}

/// How well a key fits: length of its path, and whether the host is named whole.
fn fit(key: &str, host: &str, repository: &str) -> Option<(usize, bool)> {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    let (name, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_end_matches('/');
    let path = if matches!(path, "v1" | "v2") {
        ""
    } else {
        path
    };
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(":443").unwrap_or(&name);
    let within = repository
        .strip_prefix(path)
        .is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'));
    let hub = host == "docker.io" && name == "index.docker.io";
    let whole = name == host || hub;
    (within && (whole || glob(name, host))).then_some((path.len(), whole))
}

/// As the kubelet reads them: `*` stands within one label, and the number of labels is the same.
fn glob(pattern: &str, host: &str) -> bool {
    let (patterns, labels) = (pattern.split('.'), host.split('.'));
    let same = patterns.clone().count() == labels.clone().count();
    pattern.contains('*') && same && patterns.zip(labels).all(|(p, l)| label(p, l))
}

fn label(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((before, after)) => {
            label.len() >= before.len() + after.len()
                && label.starts_with(before)
                && label.ends_with(after)
        }
    }
}

impl Entry {
    fn pair(&self) -> Result<String, &'static str> {
        if let Some(auth) = self.auth.as_deref().filter(|auth| !auth.is_empty()) {
            let bytes = STANDARD.decode(auth.trim()).ok();
            let pair = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            return pair
                .filter(|pair| pair.contains(':'))
                .ok_or("has an `auth` that is not base64 of `user:password`");
        }
        match (&self.username, &self.password) {
            (Some(user), Some(password)) => Ok(format!("{user}:{password}")),
            _ if self.identitytoken.is_some() => {
                Err("has an `identitytoken`, which is not supported: use a user and a password")
            }
            _ => Err("has neither `auth` nor `username` and `password`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::basic;

    fn found(auths: &str, host: &str) -> Option<String> {
        let file = format!(r#"{{"auths":{{{auths}}}}}"#);
        let header = basic(file.as_bytes(), host, "policies/carbon").unwrap()?;
        let pair = STANDARD
            .decode(header.strip_prefix("Basic ").unwrap())
            .unwrap();
        Some(String::from_utf8(pair).unwrap())
    }

    fn entry(key: &str, user: &str) -> String {
        format!(r#""{key}":{{"username":"{user}","password":"p:w"}}"#)
    }

    #[test]
    fn every_form_of_key_is_found() {
        for key in [
            "reg.example",
            "https://reg.example",
            "http://reg.example/",
            "https://reg.example/v1/",
            "https://reg.example/v2/",
            "reg.example/v1",
            "reg.example/policies",
            "reg.example/policies/carbon",
            "REG.example",
            "*.example",
            "r*g.example",
        ] {
            assert_eq!(
                found(&entry(key, "u"), "reg.example").as_deref(),
                Some("u:p:w"),
                "{key}"
            );
        }
    }

    #[test]
    fn keys_of_others_are_not() {
        for key in [
            "reg.example.org",
            "evil.reg.example",
            "reg.example:5000",
            "reg.example/policy",
            "reg.example/policies/carbon/more",
            "*.reg.example",
            "*",
        ] {
            assert_eq!(found(&entry(key, "u"), "reg.example"), None, "{key}");
        }
    }

    #[test]
    fn the_longest_path_wins_and_a_host_before_a_star() {
        let all = [
            entry("*.example", "star"),
            entry("reg.example", "host"),
            entry("reg.example/policies", "path"),
        ];
        assert_eq!(
            found(&all.join(","), "reg.example").as_deref(),
            Some("path:p:w")
        );
        assert_eq!(
            found(&all[..2].join(","), "reg.example").as_deref(),
            Some("host:p:w")
        );
    }

    #[test]
    fn auth_counts_before_user_and_password_unless_empty() {
        let auth = r#""reg.example":{"auth":"YTpi","username":"u","password":"p"}"#;
        assert_eq!(found(auth, "reg.example").as_deref(), Some("a:b"));
        let empty = auth.replace("YTpi", "");
        assert_eq!(found(&empty, "reg.example").as_deref(), Some("u:p"));
    }

    #[test]
    fn docker_hub_has_its_old_key() {
        let hub = entry("https://index.docker.io/v1/", "u");
        assert_eq!(found(&hub, "docker.io").as_deref(), Some("u:p:w"));
    }

    #[test]
    fn what_is_wrong_is_said_without_what_it_holds() {
        let said = |text: &str| basic(text.as_bytes(), "r.e", "a").unwrap_err();
        let broken = said("{\"auths\": secret");
        assert!(
            broken.starts_with("it is not a .dockerconfigjson (line 1, column "),
            "{broken}"
        );
        let bad = said(r#"{"auths":{"r.e":{"auth":"secret"}}}"#);
        assert!(
            bad.contains("auths.\"r.e\"") && !bad.contains("secret"),
            "{bad}"
        );
        let token = said(r#"{"auths":{"r.e":{"identitytoken":"secret"}}}"#);
        assert!(token.contains("not supported") && !token.contains("secret"));
    }
}
