//! `longshore status`: what a running daemon tells over its metrics port.

mod text;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::Answer;
use crate::args::{Output, StatusArgs};
use crate::failure::Failure;

const PATIENCE: Duration = Duration::from_secs(5);

/// Asks and prints.
pub fn run(args: &StatusArgs) -> Result<Answer, Failure> {
    let body = get(&args.at, "/status").map_err(|why| Failure::Usage {
        message: format!("no daemon answers at {}: {why}", args.at),
        hint: "is `longshore run` running, and is METRICS_PORT this port?".into(),
    })?;
    let value: serde_json::Value = serde_json::from_str(&body).unwrap_or(serde_json::Value::String(body));
    Ok(Answer::ok(match args.output {
        Output::Text if value.is_object() => text::text(&value),
        // Half a second after its start it has more to say.
        Output::Text if value.is_null() => "daemon    starts\n".to_owned(),
        _ => format!("{value:#}\n"),
    }))
}

/// One request, one answer; its body.
pub fn get(at: &str, path: &str) -> Result<String, String> {
    let address = at.to_socket_addrs().map_err(|e| e.to_string())?.next().ok_or("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n").map_err(|e| e.to_string())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|e| e.to_string())?;
    let (_, body) = text.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    Ok(body.to_owned())
}
