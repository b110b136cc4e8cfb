//! Asks a registry, blocking, as the distribution specification says.
//!
//! Redirects are followed here and not by ureq: credentials stay with the origin that asked for
//! them. Nothing is tried again; that is the caller's.

use std::cell::RefCell;
use std::io::Read as _;
use std::time::{Duration, Instant};

use longshore_files::MAX_TEXT_BYTES;
use ureq::Agent;
use ureq::http::{HeaderMap, Response, Uri, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::challenge::{self, Challenge, token_url, tokens};
use crate::fetch::Source;
use crate::manifest::{self, INDEX, MANIFEST, MAX_BUNDLE_BYTES, MAX_MANIFEST_BYTES, MAX_REFERRERS};
use crate::settings::{RegistrySettings, is_loopback};
use crate::{Digest, Error, Step, credentials};

/// Storage behind a registry redirects once or twice.
const MAX_REDIRECTS: usize = 5;
/// Of what a registry says of an error.
const MAX_SAID: usize = 200;

/// How long a registry is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, for an answer, for each piece of it.
    pub silence: Duration,
    /// For one request with its whole answer.
    pub request: Duration,
    /// For a policy with its signature, which many requests may look for.
    pub whole: Duration,
}

impl Default for Patience {
    /// 64 MiB within ten minutes are 110 kB a second.
    fn default() -> Self {
        let (silence, request) = (Duration::from_secs(20), Duration::from_secs(600));
        Self {
            silence,
            request,
            whole: Duration::from_secs(900),
        }
    }
}

/// A repository in a registry.
pub(crate) struct Client<'a> {
    /// The host as the configuration writes it.
    host: &'a str,
    repository: String,
    settings: &'a RegistrySettings,
    agent: Agent,
    /// When it is left, and how long it was waited for then.
    until: (Instant, Duration),
    /// What the registry accepted last.
    authorization: RefCell<Option<String>>,
}

/// An answer: where it is from, too, for the address of a next page.
struct Answer {
    body: Vec<u8>,
    next: Option<String>,
}

/// One question.
struct Ask<'q> {
    step: Step,
    accept: &'q str,
    most: u64,
}

impl<'a> Client<'a> {
    /// # Errors
    /// Settings that cannot be used, or a file of theirs.
    pub fn new(
        host: &'a str,
        repository: String,
        settings: &'a RegistrySettings,
        patience: Patience,
    ) -> Result<Self, Error> {
        let checked = settings.check(host);
        checked.map_err(|why| Error::new(Step::Settings, host, why.to_string()))?;
        let tls = TlsConfig::builder().root_certs(roots(settings)?).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(tls)
            .timeout_connect(Some(patience.silence))
            .timeout_recv_response(Some(patience.silence))
            .timeout_per_read(Some(patience.silence))
            .timeout_global(Some(patience.request.min(patience.whole)))
            .user_agent(concat!("longshore/", env!("CARGO_PKG_VERSION")));
        // What is on this machine is not asked for through a proxy.
        let config = match is_loopback(host) {
            true => config.proxy(None),
            false => config,
        };
        Ok(Self {
            host,
            repository,
            settings,
            agent: Agent::new_with_config(config.build()),
            until: (Instant::now() + patience.whole, patience.whole),
            authorization: RefCell::new(None),
        })
    }

    fn url(&self, kind: &str, name: &str) -> String {
        let scheme = if self.settings.plain_http {
            "http"
        } else {
            "https"
        };
        // Docker Hub's name is not the host of its registry.
        let host = match self.host {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        format!("{scheme}://{host}/v2/{}/{kind}/{name}", self.repository)
    }

    /// An answer to a question, with credentials if they are wanted.
    fn get(&self, url: &str, ask: &Ask) -> Result<Answer, Error> {
        let known = self.authorization.borrow().clone();
        let (at, answer) = self.follow(url, known.as_deref(), ask)?;
        // Only the registry is shown credentials, or says where else they are wanted: storage that
        // it redirects to could name a token server of its own.
        if answer.status() != 401 || origin(&at) != origin(url) {
            return self.read(&at, answer, ask);
        }
        let mut refused = answer;
        for authorization in self.authorizations(url, refused.headers())? {
            let (at, answer) = self.follow(url, Some(&authorization), ask)?;
            if answer.status() != 401 {
                *self.authorization.borrow_mut() = Some(authorization);
                return self.read(&at, answer, ask);
            }
            refused = answer;
        }
        self.read(url, refused, ask)
    }

    /// The answer at the end of all redirects, and where it is from. Another origin is shown no
    /// credentials.
    fn follow(
        &self,
        url: &str,
        authorization: Option<&str>,
        ask: &Ask,
    ) -> Result<(String, Response<ureq::Body>), Error> {
        let mut at = url.to_string();
        for _ in 0..=MAX_REDIRECTS {
            let shown = authorization.filter(|_| origin(&at) == origin(url));
            let answer = self.send(&at, shown, ask)?;
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok((at, answer));
            }
            let to = answer
                .headers()
                .get(header::LOCATION)
                .and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| resolved(&at, to));
            let to = to.ok_or_else(|| Error::new(ask.step, &at, "it redirects to nowhere"))?;
            self.may_ask(&to, ask.step)?;
            at = to;
        }
        let said = format!("it redirects more than {MAX_REDIRECTS} times");
        Err(Error::new(ask.step, url, said))
    }

    /// Without TLS only this machine is asked, unless the settings allow others.
    fn may_ask(&self, url: &str, step: Step) -> Result<(), Error> {
        let uri: Option<Uri> = url.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let plain = self.settings.plain_http && (self.settings.insecure || is_loopback(host));
        match uri.as_ref().and_then(Uri::scheme_str) {
            Some("https") => Ok(()),
            Some("http") if plain => Ok(()),
            _ => {
                let said = format!("{} sent us here, which has no TLS", self.host);
                Err(Error::new(step, shown(url), said))
            }
        }
    }

    fn send(
        &self,
        url: &str,
        authorization: Option<&str>,
        ask: &Ask,
    ) -> Result<Response<ureq::Body>, Error> {
        let (until, whole) = self.until;
        if Instant::now() >= until {
            let said = format!("it is not all there after {} s", whole.as_secs_f64());
            return Err(Error::new(ask.step, shown(url), said));
        }
        let mut request = self.agent.get(url).header(header::ACCEPT, ask.accept);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let failed = |error: ureq::Error| {
            let mut said = error.to_string();
            // What rustls says of an answer that begins like none of TLS.
            if said.contains("received corrupt message") {
                said = self.no_tls();
            }
            Error::new(ask.step, shown(url), said)
        };
        request.call().map_err(failed)
    }

    /// What to write where a registry has no TLS.
    fn no_tls(&self) -> String {
        let more = match is_loopback(self.host) {
            true => "",
            false => " and `insecure = true`",
        };
        let host = self.host;
        format!(
            "no TLS is spoken there; `plain-http = true`{more} in [registries.\"{host}\"] asks it without"
        )
    }

    /// What may be shown to a registry that refused, in the order in which it is tried.
    fn authorizations(&self, url: &str, headers: &HeaderMap) -> Result<Vec<String>, Error> {
        let asked = headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenge::parse(asked.filter_map(|value| value.to_str().ok()));
        let basic = self.credentials()?;
        match challenge {
            Some(Challenge::Basic) => Ok(basic.into_iter().collect()),
            Some(Challenge::Bearer {
                realm,
                service,
                scope,
            }) => {
                let (service, scope) = (service.as_deref(), scope.as_deref());
                let realm = resolved(url, &realm).unwrap_or(realm);
                let from = token_url(&realm, service, scope, &self.repository);
                self.may_ask(&from, Step::Token)?;
                let accept = "application/json";
                let ask = Ask {
                    step: Step::Token,
                    accept,
                    most: MAX_BUNDLE_BYTES,
                };
                let (at, answer) = self.follow(&from, basic.as_deref(), &ask)?;
                let answer = self.read(&at, answer, &ask)?;
                let said = |why| Error::new(Step::Token, shown(&from), why);
                let bearer = |token| format!("Bearer {token}");
                Ok(tokens(&answer.body)
                    .map_err(said)?
                    .into_iter()
                    .map(bearer)
                    .collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// Read each time: the kubelet renews the file of a secret.
    fn credentials(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.settings.auth_file else {
            return Ok(None);
        };
        let said = |why| Error::new(Step::Settings, path.display(), why);
        let bytes =
            longshore_files::read(path, MAX_TEXT_BYTES).map_err(|error| said(error.to_string()))?;
        credentials::basic(&bytes, self.host, &self.repository).map_err(said)
    }

    /// The body of a good answer, whole and not too large.
    fn read(&self, at: &str, mut answer: Response<ureq::Body>, ask: &Ask) -> Result<Answer, Error> {
        if answer.status() != 200 {
            return Err(self.refused(at, answer, ask.step));
        }
        let large = || {
            let said = format!("it has more than {} bytes", ask.most);
            Error::new(ask.step, shown(at), said)
        };
        if answer
            .body()
            .content_length()
            .is_some_and(|bytes| bytes > ask.most)
        {
            return Err(large());
        }
        let next = next_page(answer.headers()).and_then(|next| resolved(at, &next));
        let mut body = Vec::new();
        let reader = answer.body_mut().with_config().limit(u64::MAX).reader();
        let read = reader
            .take(ask.most.saturating_add(1))
            .read_to_end(&mut body);
        let failed = |error: std::io::Error| {
            let said = format!("cut off after {} bytes: {error}", body.len());
            Error::new(ask.step, shown(at), said)
        };
        if let Err(error) = read {
            return Err(failed(error));
        }
        match body.len() as u64 > ask.most {
            true => Err(large()),
            false => Ok(Answer { body, next }),
        }
    }

    /// What a registry said instead.
    fn refused(&self, at: &str, mut answer: Response<ureq::Body>, step: Step) -> Error {
        let status = answer.status();
        let after = answer.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let mut body = Vec::new();
        let reader = answer.body_mut().with_config().limit(u64::MAX).reader();
        // What cannot be read is not said.
        let _ = reader.take(MAX_MANIFEST_BYTES).read_to_end(&mut body);
        let what = match (status.as_u16(), &self.settings.auth_file) {
            (401 | 403, None) => "it wants credentials: set `auth-file` of this registry",
            (401 | 403, Some(_)) => "it refuses the credentials in `auth-file`",
            (404, _) => "it is not there",
            (429, _) => "it was asked too often",
            (500.., _) => "the registry failed",
            _ => "unexpected",
        };
        let said = registry_error(&body).map(|said| format!(" ({said})"));
        let reason = format!(
            "{what}: status {}{}",
            status.as_u16(),
            said.unwrap_or_default()
        );
        let error = Error {
            after,
            ..Error::new(step, shown(at), reason)
        };
        if status == 404 { error.absent() } else { error }
    }

    /// Every page of the referrers API; nothing if the registry has none.
    fn referrer_pages(&self, digest: &Digest) -> Result<Option<Vec<Digest>>, Error> {
        let ask = Ask {
            step: Step::Referrers,
            accept: INDEX,
            most: MAX_MANIFEST_BYTES,
        };
        let mut url = self.url("referrers", &digest.to_string());
        let first = origin(&url);
        let mut found = Vec::new();
        for _ in 0..=MAX_REFERRERS {
            let answer = match self.get(&url, &ask) {
                // Any 404, whatever its body: it comes before a 401, and need not be JSON.
                Err(error) if error.not_found => return Ok(None),
                answer => answer?,
            };
            let listed = manifest::index(&answer.body);
            let said = || Error::new(Step::Referrers, &url, "the answer is not an OCI index");
            found.extend(
                listed
                    .ok_or_else(said)?
                    .into_iter()
                    .map(|entry| entry.digest),
            );
            // The next page is asked with credentials, so it is of this registry or none.
            match answer.next.filter(|next| origin(next) == first) {
                Some(next) if found.len() <= MAX_REFERRERS => url = next,
                _ => break,
            }
        }
        Ok(Some(found))
    }

    /// What the tag `sha256-…` lists. It may be no index at all, when a tool copied it wrongly: then
    /// there is no signature.
    fn referrers_by_tag(&self, digest: &Digest) -> Result<Vec<Digest>, Error> {
        let accept = format!("{INDEX}, {MANIFEST}");
        let ask = Ask {
            step: Step::Referrers,
            accept: &accept,
            most: MAX_MANIFEST_BYTES,
        };
        match self.get(&self.url("manifests", &digest.tag()), &ask) {
            Err(error) if error.not_found => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(answer) => {
                let listed = manifest::index(&answer.body).unwrap_or_default();
                Ok(listed.into_iter().map(|entry| entry.digest).collect())
            }
        }
    }

    fn checked(&self, url: &str, digest: &Digest, ask: &Ask) -> Result<Vec<u8>, Error> {
        let body = self.get(url, ask)?.body;
        let is = Digest::of(&body);
        match is == *digest {
            true => Ok(body),
            false => Err(Error::new(
                ask.step,
                url,
                format!("what came has the digest {is}"),
            )),
        }
    }
}

impl Source for Client<'_> {
    fn manifest(&self, digest: &Digest, step: Step) -> Result<Vec<u8>, Error> {
        // Both by name: distribution answers 404 to `*/*`, and an index is refused in its words.
        let accept = format!("{MANIFEST}, {INDEX}");
        let ask = Ask {
            step,
            accept: &accept,
            most: MAX_MANIFEST_BYTES,
        };
        self.checked(&self.url("manifests", &digest.to_string()), digest, &ask)
    }

    fn blob(&self, digest: &Digest, most: u64, step: Step) -> Result<Vec<u8>, Error> {
        let ask = Ask {
            step,
            accept: "*/*",
            most,
        };
        self.checked(&self.url("blobs", &digest.to_string()), digest, &ask)
    }

    fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>, Error> {
        let mut found = match self.referrer_pages(digest)? {
            Some(found) => found,
            None => self.referrers_by_tag(digest)?,
        };
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|digest| seen.insert(digest.clone()));
        Ok(found)
    }

    fn place(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }
}

/// The authorities that are trusted: those of the file alone, or the machine's.
fn roots(settings: &RegistrySettings) -> Result<RootCerts, Error> {
    let Some(path) = &settings.ca_file else {
        return Ok(RootCerts::PlatformVerifier);
    };
    let said = |why: String| Error::new(Step::Settings, path.display(), why);
    let pem =
        longshore_files::read(path, MAX_TEXT_BYTES).map_err(|error| said(error.to_string()))?;
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        match item.map_err(|error| said(error.to_string()))? {
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => return Err(said("it has something else than certificates".into())),
        }
    }
    match found.is_empty() {
        true => Err(said("it has no certificate in PEM".into())),
        false => Ok(found.into()),
    }
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_string();
    let usual = if scheme == "https" { 443 } else { 80 };
    let host = uri.host()?.to_ascii_lowercase();
    Some((scheme, host, uri.port_u16().unwrap_or(usual)))
}

/// An address that stands in an answer from another one: whole, or beginning with `/` or `//`.
fn resolved(from: &str, to: &str) -> Option<String> {
    let uri: Uri = from.parse().ok()?;
    let to = to.split_once('#').map_or(to, |(before, _)| before);
    if to.starts_with("//") {
        return Some(format!("{}:{to}", uri.scheme_str()?));
    }
    if to.starts_with('/') {
        return Some(format!("{}://{}{to}", uri.scheme_str()?, uri.authority()?));
    }
    to.contains("://").then(|| to.to_string())
}

/// An address without its query, which may hold a key of the storage behind.
fn shown(url: &str) -> &str {
    url.split_once('?').map_or(url, |(before, _)| before)
}

/// The address of the next page: `Link: <…>; rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(header::LINK)?.to_str().ok()?;
    let (to, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| to.to_string())
}

/// The first error in a registry's answer, shortened, without control characters.
fn registry_error(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("errors")?.get(0)?;
    let word = |name| error.get(name).and_then(serde_json::Value::as_str);
    let words: Vec<&str> = ["code", "message"].into_iter().filter_map(word).collect();
    let said = words.join(": ");
    let clean = said.chars().filter(|c| !c.is_control()).take(MAX_SAID);
    Some(clean.collect()).filter(|said: &String| !said.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{origin, registry_error, resolved, shown};

    #[test]
    fn an_address_in_an_answer_is_made_whole() {
        let from = "https://r.e:5000/v2/a";
        let is = |to| resolved(from, to).unwrap();
        assert_eq!(is("/b?c=d"), "https://r.e:5000/b?c=d");
        assert_eq!(is("//x.y/b"), "https://x.y/b");
        assert_eq!(is("http://x.y/b#f"), "http://x.y/b");
        assert_eq!(resolved(from, "b"), None);
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin("https://R.e/a"), origin("https://r.e:443/b"));
        for other in ["http://r.e/a", "https://r.e:444/a", "https://r.e.x/a"] {
            assert_ne!(origin("https://r.e/a"), origin(other));
        }
        assert_eq!(shown("https://s/a?key=secret"), "https://s/a");
    }

    #[test]
    fn what_a_registry_says_is_short_and_on_one_line() {
        let body = br#"{"errors":[{"code":"DENIED","message":"no\n\u001b[31m"}]}"#;
        assert_eq!(registry_error(body).as_deref(), Some("DENIED: no[31m"));
        assert_eq!(registry_error(b"404 page not found"), None);
    }
}
