//! How the daemon's pod proves to AWS what it is: as EKS would arrange it.
//!
//! A service account with the annotation of IRSA gets a token for STS, as EKS's webhook injects it.
//! Others get what the agent of Pod Identity serves: an address and a token.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result};
use longshore_xtask::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::{Container, NAMESPACE, token};

const ROLE: &str = "eks.amazonaws.com/role-arn";
/// Where tokens are mounted, below the root of the container.
const FOLDER: &str = "var/run/secrets/eks.amazonaws.com/serviceaccount";

/// What is added to the pod's environment.
pub struct Identity {
    set: BTreeMap<String, String>,
}

impl Identity {
    /// Arranges it for the service account of a container.
    ///
    /// # Errors
    /// The service account is not there, or a token cannot be made or written.
    pub fn of(plane: &ControlPlane, root: &Path, container: &Container) -> Result<Self> {
        let account = &container.account;
        let get = [
            "-n",
            NAMESPACE,
            "get",
            "serviceaccount",
            account,
            "-o",
            "json",
        ];
        let object: Value = serde_json::from_str(&plane.run(&get)?)?;
        let role = object["metadata"]["annotations"][ROLE].as_str();
        let folder = root.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let audience = match role {
            Some(_) => "sts.amazonaws.com",
            None => "pods.eks.amazonaws.com",
        };
        let token = token(plane, account, Some(audience))?;
        fs::write(folder.join("token"), &token)?;
        let file = format!("/{FOLDER}/token");
        let set = match role {
            Some(role) => {
                println!("IRSA: {role}");
                [
                    ("AWS_ROLE_ARN", role.to_owned()),
                    ("AWS_WEB_IDENTITY_TOKEN_FILE", file),
                ]
            }
            None => {
                let url = agent(token)?;
                println!("Pod Identity: {url}");
                [
                    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url),
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file),
                ]
            }
        };
        let set = set.map(|(key, value)| (key.to_owned(), value)).into();
        Ok(Identity { set })
    }

    /// The variables.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.set.clone()
    }
}

/// Answers as the agent of Pod Identity until the process ends, and only to the token.
fn agent(token: String) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // All of it: a connection that is closed with text unread is reset, and the answer lost.
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let is_known = head
                .iter()
                .filter_map(|line| line.split_once(": "))
                .any(|(key, value)| key.eq_ignore_ascii_case("authorization") && value == token);
            let (status, body) = match is_known {
                true => ("200 OK", credentials()),
                false => ("401 Unauthorized", json!({"message": "not this token"})),
            };
            let body = body.to_string();
            let length = body.len();
            // A client that has gone asks again.
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    Ok(format!("http://127.0.0.1:{port}/v1/credentials"))
}

fn credentials() -> Value {
    json!({
        "AccessKeyId": "ASIATRIAL",
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": "2100-01-01T00:00:00Z",
    })
}
