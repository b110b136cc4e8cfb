//! What a registry says with a 401, and what a token server answers.

use serde_json::Value;

/// How a registry wants to be shown credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token, fetched here.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// The challenge that is answered: the one for a token before the one for a password.
pub(crate) fn parse<'h>(headers: impl Iterator<Item = &'h str>) -> Option<Challenge> {
    let mut basic = None;
    for (scheme, params) in headers.flat_map(schemes) {
        let param = |name: &str| {
            let found = params.iter().find(|(key, _)| key == name);
            found
                .map(|(_, value)| value.clone())
                .filter(|value| !value.is_empty())
        };
        match scheme.as_str() {
            "basic" => basic = Some(Challenge::Basic),
            "bearer" => {
                if let Some(realm) = param("realm") {
                    let (service, scope) = (param("service"), param("scope"));
                    return Some(Challenge::Bearer {
                        realm,
                        service,
                        scope,
                    });
                }
            }
            _ => {}
        }
    }
    basic
}

type Params = Vec<(String, String)>;

/// Schemes with their parameters; names in lower case, any spacing.
fn schemes(header: &str) -> Vec<(String, Params)> {
    let mut found: Vec<(String, Params)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        if end == 0 {
            return found;
        }
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        match (rest.strip_prefix('='), found.last_mut()) {
            (Some(value), Some((_, params))) => {
                let (value, after) = value_of(value.trim_start());
                params.push((name, value));
                rest = after;
            }
            (Some(_), None) => return found,
            (None, _) => found.push((name, Vec::new())),
        }
    }
}

/// A value, in quotes or not, and what follows.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].into(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// Where a token is asked for: service and scope join the realm's own query.
pub(crate) fn token_url(
    realm: &str,
    service: Option<&str>,
    scope: Option<&str>,
    repository: &str,
) -> String {
    let realm = realm.split_once('#').map_or(realm, |(before, _)| before);
    let pull = format!("repository:{repository}:pull");
    let mut url = realm.to_string();
    let pairs = [
        ("service", service),
        ("scope", Some(scope.unwrap_or(&pull))),
    ];
    for (key, value) in pairs {
        let Some(value) = value else { continue };
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(key);
        url.push('=');
        url.push_str(&escaped(value));
    }
    url
}

fn escaped(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' => {
            char::from(b).to_string()
        }
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The tokens in an answer, in the order in which they are tried. When it has both names with
/// different values, clients disagree on which one counts.
///
/// Nothing else is read: a token that is no longer valid is noticed by the next 401.
pub(crate) fn tokens(answer: &[u8]) -> Result<Vec<String>, String> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|_| "the token server's answer is not JSON".to_string())?;
    let named = ["token", "access_token"].map(|name| answer.get(name).and_then(Value::as_str));
    let sound = |token: &&str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    let mut tokens: Vec<String> = Vec::new();
    for token in named.into_iter().flatten().filter(sound) {
        if tokens.iter().all(|known| known != token) {
            tokens.push(token.into());
        }
    }
    match tokens.is_empty() {
        true => Err("the token server's answer has neither `token` nor `access_token`".into()),
        false => Ok(tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::{Challenge, parse, token_url, tokens};

    fn bearer(header: &str) -> (String, Option<String>, Option<String>) {
        match parse([header].into_iter()) {
            Some(Challenge::Bearer {
                realm,
                service,
                scope,
            }) => (realm, service, scope),
            other => panic!("{header}: {other:?}"),
        }
    }

    #[test]
    fn a_challenge_has_any_spacing_order_and_case() {
        let is = |text: &str| Some(text.to_string());
        let whole = (
            "https://t/x?y=1".into(),
            is("a, b"),
            is("repository:a/b:pull"),
        );
        for header in [
            r#"Bearer realm="https://t/x?y=1",service="a, b",scope="repository:a/b:pull""#,
            r#"bearer  scope="repository:a/b:pull" ,  service = "a, b", REALM="https://t/x?y=1""#,
            r#"Basic realm="no", Bearer realm="https://t/x?y=1",service="a\, b",scope="repository:a/b:pull""#,
        ] {
            assert_eq!(bearer(header), whole, "{header}");
        }
        assert_eq!(
            bearer("Bearer realm=http://t"),
            ("http://t".into(), None, None)
        );
    }

    #[test]
    fn a_password_is_shown_when_no_token_is_offered() {
        let basic = |header| parse([header].into_iter());
        assert_eq!(basic(r#"Basic realm="Reg Realm""#), Some(Challenge::Basic));
        assert_eq!(basic("BASIC"), Some(Challenge::Basic));
        assert_eq!(
            basic(r#"Bearer service="a", Basic"#),
            Some(Challenge::Basic)
        );
        assert_eq!(basic(r#"Digest realm="a""#), None);
        for odd in [
            "",
            ",,",
            "=",
            "Bearer",
            "Bearer realm",
            "Bearer realm=\"",
            "\\\"",
        ] {
            assert_eq!(basic(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_is_asked_for_with_the_realms_own_query() {
        let url = token_url("https://t/x?y=1", Some("a, b"), None, "p/c");
        assert_eq!(
            url,
            "https://t/x?y=1&service=a%2C%20b&scope=repository:p/c:pull"
        );
        assert_eq!(
            token_url("https://t", None, Some("s&x"), "p"),
            "https://t?scope=s%26x"
        );
    }

    #[test]
    fn either_name_of_a_token_is_enough() {
        let of = |text: &str| tokens(text.as_bytes()).unwrap();
        assert_eq!(of(r#"{"token":"a"}"#), ["a"]);
        assert_eq!(
            of(r#"{"access_token":"a","expires_in":"300","issued_at":7}"#),
            ["a"]
        );
        assert_eq!(of(r#"{"token":null,"access_token":"a"}"#), ["a"]);
        assert_eq!(of(r#"{"token":"","access_token":"a"}"#), ["a"]);
        assert_eq!(of(r#"{"token":"a","access_token":"a"}"#), ["a"]);
        assert_eq!(of(r#"{"access_token":"b","token":"a"}"#), ["a", "b"]);
    }

    #[test]
    fn an_answer_without_a_token_is_an_error() {
        for text in [
            "{}",
            "[]",
            r#"{"token":"a\nb: c"}"#,
            r#"{"token":1}"#,
            "<html>",
        ] {
            assert!(tokens(text.as_bytes()).is_err(), "{text}");
        }
    }
}
