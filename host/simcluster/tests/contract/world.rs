//! What a test has at hand: a client, a namespace of its own, and requests as plain as they go over
//! the wire.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use http_body::Body as _;
use kube::Client;
use serde_json::{Value, json};

pub type Test = for<'a> fn(&'a World) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Lists tests by their names.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub const ALL: &[(&str, $crate::world::Test)] = &[$((stringify!($name), |world| Box::pin($name(world)))),*];
    };
}

pub struct World {
    pub client: Client,
    /// Its namespace, and a prefix for names that belong to no namespace.
    pub namespace: String,
    /// Whether controllers and a scheduler are about.
    pub real: bool,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// The body of an answer that is as wanted.
    pub fn ok(self) -> Result<Value> {
        ensure!(
            (200..300).contains(&self.code),
            "{} {}",
            self.code,
            self.body
        );
        Ok(self.body)
    }

    /// A refusal with this code and reason; its message.
    pub fn refused(self, code: u16, reason: &str) -> Result<String> {
        let given = self.body["reason"].as_str().unwrap_or_default();
        ensure!(
            self.code == code && given == reason,
            "not {code} {reason} but {} {}",
            self.code,
            self.body
        );
        ensure!(
            self.body["kind"] == "Status" && self.body["status"] == "Failure",
            "{}",
            self.body
        );
        ensure!(self.body["code"] == code, "{}", self.body);
        Ok(self.body["message"].as_str().unwrap_or_default().to_owned())
    }
}

impl World {
    pub async fn new(client: Client, namespace: String, real: bool) -> Result<Self> {
        let world = World {
            client,
            namespace,
            real,
        };
        let namespace = json!({"metadata": {"name": world.namespace}});
        world.post("/api/v1/namespaces", &namespace).await?.ok()?;
        // A server that has just been given its definitions says for a moment that it is not ready
        // for them.
        for path in [
            "/apis/karpenter.sh/v1/nodepools",
            "/apis/karpenter.sh/v1/nodeclaims",
        ] {
            world.until(path, |_| true).await?;
        }
        Ok(world)
    }

    /// The path of a kind of the core group in the test's namespace.
    pub fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The path of a kind of a group in the test's namespace.
    pub fn group(&self, group: &str, rest: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{rest}", self.namespace)
    }

    /// A name for an object without namespace.
    pub fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Answer> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self
            .client
            .send(request.body(body.into_bytes().into())?)
            .await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&bytes)
            .with_context(|| format!("{method} {path}: {}", String::from_utf8_lossy(&bytes)))?;
        Ok(Answer { code, body })
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, &[], String::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(
            "POST",
            path,
            &[("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(
            "PUT",
            path,
            &[("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    /// `how` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, how: &str, body: &Value) -> Result<Answer> {
        let kind = format!("application/{how}-patch+json");
        self.send("PATCH", path, &[("content-type", &kind)], body.to_string())
            .await
    }

    pub async fn apply(
        &self,
        path: &str,
        manager: &str,
        force: bool,
        body: &Value,
    ) -> Result<Answer> {
        let path = format!("{path}?fieldManager={manager}&force={force}");
        self.send(
            "PATCH",
            &path,
            &[("content-type", "application/apply-patch+yaml")],
            body.to_string(),
        )
        .await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Answer> {
        let body = if options.is_null() {
            String::new()
        } else {
            options.to_string()
        };
        self.send(
            "DELETE",
            path,
            &[("content-type", "application/json")],
            body,
        )
        .await
    }

    /// A pod that no scheduler looks at.
    pub fn pod(&self, name: &str, labels: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]},
        })
    }

    /// Creates such a pod.
    pub async fn with_pod(&self, name: &str, labels: Value) -> Result<Value> {
        self.post(&self.core("pods"), &self.pod(name, labels))
            .await?
            .ok()
    }

    /// Creates a ConfigMap.
    pub async fn with_map(&self, name: &str, data: Value) -> Result<Value> {
        let map = json!({"metadata": {"name": name}, "data": data});
        self.post(&self.core("configmaps"), &map).await?.ok()
    }

    /// Begins a watch.
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        self.watch_as(path, "application/json").await
    }

    /// Begins a watch of objects in another form.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch> {
        let request = http::Request::get(path)
            .header("accept", accept)
            .body(Vec::new().into())?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        if code != 200 {
            bail!(
                "{code} {}",
                String::from_utf8_lossy(&response.into_body().collect_bytes().await?)
            );
        }
        Ok(Watch {
            body: Box::pin(response.into_body()),
            text: Vec::new(),
        })
    }

    /// Asks until an answer is as wanted.
    pub async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        for _ in 0..150 {
            let answer = self.get(path).await?;
            if answer.code == 200 && holds(&answer.body) {
                return Ok(answer.body);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!(
            "{path} is not as wanted after 30 s: {}",
            self.get(path).await?.body
        )
    }
}

/// A watch that is read line by line.
pub struct Watch {
    body: Pin<Box<kube::client::Body>>,
    text: Vec<u8>,
}

impl Watch {
    /// The next event, nothing if the watch has ended.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let frame = poll_fn(|context| self.body.as_mut().poll_frame(context));
            let Some(frame) = tokio::time::timeout(Duration::from_secs(20), frame)
                .await
                .context("nothing comes")?
            else {
                return Ok(None);
            };
            self.text
                .extend_from_slice(frame?.data_ref().context("no data")?);
        }
    }

    /// The next event that is no bookmark, as `TYPE name`.
    pub async fn next_change(&mut self) -> Result<String> {
        loop {
            let event = self.next().await?.context("the watch has ended")?;
            if event["type"] != "BOOKMARK" {
                return Ok(format!(
                    "{} {}",
                    plain(&event["type"]),
                    plain(&event["object"]["metadata"]["name"])
                ));
            }
        }
    }
}

/// A text without its quotes, or whatever else it is.
pub fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The names of a list's items, in order.
pub fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| plain(&item["metadata"]["name"]))
        .collect()
}

/// The version of an object or a list.
pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
}
