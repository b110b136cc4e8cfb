//! A server that lists the objects of a file in pages and sends no changes: enough of an API server
//! for a fold.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value, json};

/// Serves until the process ends.
pub struct Listing {
    pub address: SocketAddr,
    first: Arc<Mutex<Option<Instant>>>,
}

/// Objects as text, by the path that lists them.
type Lists = BTreeMap<String, Vec<String>>;

impl Listing {
    /// Starts one, with the objects of a v1 List.
    pub fn serve(list: &Value) -> anyhow::Result<Self> {
        let mut lists = Lists::new();
        for object in list["items"].as_array().context("a List")? {
            lists
                .entry(path(object)?)
                .or_default()
                .push(object.to_string());
        }
        let (lists, first) = (Arc::new(lists), Arc::new(Mutex::new(None)));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let listing = Listing {
            address: listener.local_addr()?,
            first: first.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (lists, first) = (lists.clone(), first.clone());
                // Who hangs up is served no longer.
                std::thread::spawn(move || drop(converse(stream, &lists, &first)));
            }
        });
        Ok(listing)
    }

    /// When the first byte of a list was sent.
    pub fn first_byte(&self) -> Option<Instant> {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path under which objects of a kind are listed.
fn path(object: &Value) -> anyhow::Result<String> {
    let text = |key: &str| {
        object[key]
            .as_str()
            .with_context(|| format!("an object without {key}"))
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?.to_lowercase());
    let root = if version.contains('/') { "apis" } else { "api" };
    let ending = if kind.ends_with('s') { "es" } else { "s" };
    Ok(format!("/{root}/{version}/{kind}{ending}"))
}

fn converse(
    stream: TcpStream,
    lists: &Lists,
    first: &Mutex<Option<Instant>>,
) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if lines.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            lines.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        lines.by_ref().take(length).read_to_end(&mut Vec::new())?;
        let mut words = request.split_whitespace();
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if query.contains("watch=1") {
            // No news, ever: the head is all.
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            continue;
        }
        let (status, body) = if method == "GET" {
            ("200 OK", page(lists, path, query))
        } else {
            refusal()
        };
        if lists.contains_key(path) {
            first
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(Instant::now);
        }
        write!(
            out,
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        out.write_all(body.as_bytes())?;
    }
}

/// Some objects, and the token for the next.
fn page(lists: &Lists, path: &str, query: &str) -> String {
    let number = |key: &str| {
        let value = query
            .split('&')
            .find_map(|part| part.strip_prefix(key))
            .unwrap_or("");
        value.parse::<usize>().ok()
    };
    let all = lists.get(path).map_or(&[][..], Vec::as_slice);
    let from = number("continue=").unwrap_or(0).min(all.len());
    let to = number("limit=").map_or(all.len(), |limit| (from + limit).min(all.len()));
    let next = if to < all.len() {
        to.to_string()
    } else {
        String::new()
    };
    let metadata = json!({"resourceVersion": "1", "continue": next});
    format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{}]}}"#,
        all[from..to].join(",")
    )
}

fn refusal() -> (&'static str, String) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "reason": "ServiceUnavailable",
        "message": "this server lists and does nothing else",
    });
    ("503 Service Unavailable", status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        let object = |name: &str| json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}});
        let at = path(&object("a")).unwrap();
        assert_eq!(at, "/apis/apps/v1/daemonsets");
        let lists = Lists::from([(
            at.clone(),
            ["a", "b", "c"]
                .map(|name| object(name).to_string())
                .to_vec(),
        )]);
        let page = |query: &str| serde_json::from_str::<Value>(&page(&lists, &at, query)).unwrap();
        let first = page("limit=2&continue=");
        assert_eq!(
            (
                first["items"].as_array().unwrap().len(),
                &first["metadata"]["continue"]
            ),
            (2, &json!("2"))
        );
        let last = page("limit=2&continue=2");
        assert_eq!(
            (
                &last["items"][0]["metadata"]["name"],
                &last["metadata"]["continue"]
            ),
            (&json!("c"), &json!(""))
        );
    }
}
