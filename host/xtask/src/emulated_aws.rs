//! An emulated AWS beside a control plane: instances join the cluster as their user data says.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;

/// A running emulator; ended when it is dropped.
pub struct EmulatedAws {
    child: Child,
    /// Its URL, for all services.
    pub url: String,
    /// Name of the queue with interruptions.
    pub queue: String,
}

impl EmulatedAws {
    /// Starts `longshore emulate aws` with a world on a free port.
    ///
    /// # Errors
    /// It ends instead of getting ready.
    pub fn start(longshore: &Path, world: &Path, plane: &ControlPlane) -> Result<Self> {
        let mut child = Command::new(longshore)
            .args(["emulate", "aws", "--port", "0", "--world"])
            .arg(world)
            .arg("--kubeconfig")
            .arg(plane.admin_kubeconfig())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("a pipe")?;
        let mut started = EmulatedAws {
            child,
            url: String::new(),
            queue: String::new(),
        };
        let mut lines = BufReader::new(out).lines();
        let mut value = |key: &str| -> Result<String> {
            let line = lines.next().context("the emulator has ended")??;
            let value = line.split_once('=').filter(|(own, _)| *own == key);
            let (_, value) = value.with_context(|| format!("the emulator says {line:?}"))?;
            Ok(value.to_owned())
        };
        started.url = value("AWS_ENDPOINT_URL")?;
        started.queue = value("INTERRUPTION_QUEUE")?;
        Ok(started)
    }

    /// What a daemon needs in its environment.
    pub fn environment(&self) -> [(&str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", &self.url),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ]
    }

    /// Asks one of the emulator's own paths.
    ///
    /// # Errors
    /// The answer is not 200 with JSON.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let host = self.url.strip_prefix("http://").context("a URL")?;
        let body = body.to_string();
        let length = body.len();
        let mut stream = TcpStream::connect(host)?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(
            answer.starts_with("HTTP/1.1 200"),
            "{method} {path}: {answer}"
        );
        let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
        Ok(serde_json::from_str(body)?)
    }

    /// Adds faults.
    ///
    /// # Errors
    /// The emulator does not take them.
    pub fn faults(&self, faults: &Value) -> Result<()> {
        self.ask("POST", "/_emulator/faults", faults).map(drop)
    }

    /// How many calls there were, by action.
    ///
    /// # Errors
    /// The emulator does not answer.
    pub fn counts(&self) -> Result<BTreeMap<String, usize>> {
        let log = self.ask("GET", "/_emulator/calls", &json!(null))?;
        let calls = log["calls"].as_array().context("no list of calls")?;
        let mut counts = BTreeMap::new();
        for call in calls {
            let action = call["action"].as_str().unwrap_or_default();
            *counts.entry(action.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    /// IDs of the instances that live.
    ///
    /// # Errors
    /// The emulator does not answer.
    pub fn instances(&self) -> Result<Vec<String>> {
        let nodes = self.ask("GET", "/_emulator/nodes", &json!(null))?;
        let nodes = nodes["nodes"].as_array().cloned().unwrap_or_default();
        let id = |node: &Value| node["instance"].as_str().map(str::to_owned);
        Ok(nodes.iter().filter_map(id).collect())
    }
}

impl Drop for EmulatedAws {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
