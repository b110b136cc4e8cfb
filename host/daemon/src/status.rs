//! `longshore status`: shows what a running daemon reports at its status address.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::settings::{STATUS, STATUS_ADDRESS};
use crate::answer::Answer;
use crate::args::{Output, StatusArgs};
use longshore_live::error::Failure;
use longshore_live::status::{as_text, parts};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A daemon answers within 30 s, or says that it does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// Limit of an answer's length.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

pub fn run(args: &StatusArgs) -> Result<Answer, Failure> {
    let at = address(args.at.as_deref());
    let body = ask(&at, "/status", "is `longshore run` running?")?;
    let value: serde_json::Value =
        serde_json::from_str(&body).unwrap_or(serde_json::Value::String(body));
    Ok(Answer::ok(match args.output {
        Output::Text if value.is_object() => as_text(&parts::read(value)),
        // Half a second after its start it has more to say.
        Output::Text if value.is_null() => "daemon    starts\n".to_owned(),
        _ => format!("{value:#}\n"),
    }))
}

/// Where the daemon is asked.
pub fn address(typed: Option<&str>) -> String {
    let set = || std::env::var(STATUS).ok().filter(|text| !text.is_empty());
    typed
        .map(str::to_owned)
        .or_else(set)
        .unwrap_or_else(|| STATUS_ADDRESS.to_owned())
}

/// Asks a daemon; the body of its answer. `alone` is what to do where no daemon answers.
///
/// # Errors
/// Nobody answers, or the answer is no, in the daemon's words and with what to do about it.
pub fn ask(at: &str, path: &str, alone: &str) -> Result<String, Failure> {
    let failure = |message: String, hint: &str| Failure::Usage {
        message,
        hint: hint.to_owned(),
    };
    let (code, body) = get(at, path).map_err(|why| {
        failure(
            format!("no daemon answers at {at}: {why}"),
            &format!("{alone} Say where its status address is with --at or {STATUS}"),
        )
    })?;
    let said = body.trim().to_owned();
    match code {
        200 => Ok(body),
        // It knows its address and says it.
        421 => Err(failure(
            format!("{at} is the daemon's metrics port: {said}"),
            "ask there, with --at",
        )),
        404 if path.starts_with("/explain/") && !said.is_empty() => {
            Err(failure(said, "the daemon knows pods as NAMESPACE/NAME"))
        }
        500 if path.starts_with("/explain/") => Err(failure(said, "the daemon's log says more")),
        404 => Err(failure(
            format!("{at} answers, and knows nothing of {path}"),
            &format!(
                "ask the daemon's status address, by default {STATUS_ADDRESS}, with --at or \
                {STATUS}"
            ),
        )),
        429 | 503 => Err(failure(said, "ask again in a moment")),
        code => Err(failure(
            format!("{at} answers {code}: {said}"),
            "is that a Longshore daemon?",
        )),
    }
}

/// One request, one answer; its code and body.
fn get(at: &str, path: &str) -> Result<(u16, String), String> {
    let address = at
        .to_socket_addrs()
        .map_err(|e| e.to_string())?
        .next()
        .ok_or("the name has no address")?;
    let mut stream =
        TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(|e| e.to_string())?;
    stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .map_err(|e| e.to_string())?;
    // In one piece, so that a server that answers the first line and hangs up is still read.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .map_err(|e| e.to_string())?;
    let mut text = String::new();
    stream
        .take(MAX_ANSWER_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| e.to_string())?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or("the answer is not HTTP")?;
    let code = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or("the answer is not HTTP")?;
    Ok((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The output for a connection with this answer.
    fn answer_of(code: &str, body: &str, path: &str) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let answer = format!("HTTP/1.0 {code}\r\n\r\n{body}");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let got =
            ask(&at, path, "start it.").map_err(|failure| failure.report().replace(&at, "HERE"));
        server.join().unwrap();
        got
    }

    #[test]
    fn what_a_daemon_does_not_answer_is_said_with_what_to_do() {
        assert_eq!(answer_of("200 OK", "{}", "/status"), Ok("{}".to_owned()));
        let elsewhere = answer_of(
            "421 Misdirected Request",
            "status is at 127.0.0.1:9 (STATUS_ADDRESS)\n",
            "/status",
        );
        let elsewhere = elsewhere.unwrap_err();
        assert!(
            elsewhere.contains("HERE is the daemon's metrics port: status is at 127.0.0.1:9"),
            "{elsewhere}"
        );
        let other = answer_of("404 Not Found", "", "/status").unwrap_err();
        assert!(
            other.contains("HERE answers, and knows nothing of /status")
                && other.contains(STATUS_ADDRESS),
            "{other}"
        );
        let busy = answer_of(
            "429 Too Many Requests",
            "another question is being answered\n",
            "/explain/pod/a",
        )
        .unwrap_err();
        assert!(
            busy.contains("another question") && busy.contains("ask again"),
            "{busy}"
        );
        let pod = answer_of("404 Not Found", "there is no pod a", "/explain/pod/a").unwrap_err();
        assert!(
            pod.contains("there is no pod a") && pod.contains("NAMESPACE/NAME"),
            "{pod}"
        );
    }

    #[test]
    fn a_daemon_that_is_not_there_is_said_with_its_address() {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        let said = ask(&free, "/status", "start it.").unwrap_err().report();
        assert!(
            said.contains(&format!("no daemon answers at {free}"))
                && said.contains("STATUS_ADDRESS"),
            "{said}"
        );
    }
}
