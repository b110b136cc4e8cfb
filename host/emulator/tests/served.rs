//! The loopback server: connections, long polls, dropped replies, and a flood of messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::background::background;
use longshore_emulator::{Account, World};
use serde_json::{Value, json};

fn server() -> SocketAddr {
    let mut account = Account::default_region();
    account.settings.duplicate_share = 0.1;
    background(World::new(account, 1)).unwrap()
}

/// A connection that is kept.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends a request; `None` if the connection ends without a reply.
    fn call(&mut self, path: &str, target: &str, body: &Value) -> Option<Value> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: emulator\r\nx-amz-target: {target}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let lower = line.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Some(serde_json::from_slice(&body).unwrap())
    }

    fn sqs(&mut self, action: &str, body: Value) -> Option<Value> {
        self.call("/", &format!("AmazonSQS.{action}"), &body)
    }
}

#[test]
fn a_long_poll_ends_when_a_message_comes() {
    let address = server();
    let waiting = std::thread::spawn(move || {
        let began = Instant::now();
        let receive = json!({"QueueUrl": "x/demo", "WaitTimeSeconds": 20});
        let got = Client::new(address).sqs("ReceiveMessage", receive).unwrap();
        (got["Messages"][0]["Body"].clone(), began.elapsed())
    });
    let mut client = Client::new(address);
    // A message that comes before the poll ends it as well, so the order of the two does not matter.
    client
        .sqs(
            "SendMessage",
            json!({"QueueUrl": "x/demo", "MessageBody": "late"}),
        )
        .unwrap();
    let (body, took) = waiting.join().unwrap();
    assert_eq!(body, "late");
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_dropped_reply_ends_the_connection_after_the_commit() {
    let address = server();
    let mut client = Client::new(address);
    let faults = json!([{"drop": {"when": "after", "on": {"action": "SendMessage", "times": 1}}}]);
    client.call("/_emulator/faults", "-", &faults).unwrap();
    let send = json!({"QueueUrl": "x/demo", "MessageBody": "m"});
    assert_eq!(client.sqs("SendMessage", send), None);
    let got = Client::new(address)
        .sqs("ReceiveMessage", json!({"QueueUrl": "x/demo"}))
        .unwrap();
    assert_eq!(got["Messages"][0]["Body"], "m");
}

#[test]
fn ten_thousand_messages_with_duplicates_and_rubbish_are_served_in_a_minute() {
    let address = server();
    let mut client = Client::new(address);
    let rubbish = |at: u32| ["", "{", "null", "[1]", "\u{fffd}"][at as usize % 5];
    let body = |at: u32| match at % 10 {
        0 => rubbish(at / 10).to_owned(),
        _ => {
            let detail = json!({"instance-id": format!("i-{:017x}", at / 2), "instance-action": "terminate"});
            let kind = "EC2 Spot Instance Interruption Warning";
            json!({"version": "0", "source": "aws.ec2", "detail-type": kind, "detail": detail})
                .to_string()
        }
    };
    let faults: Vec<Value> = (0..10_000)
        .map(|at| json!({"message": {"body": body(at)}}))
        .collect();
    client
        .call("/_emulator/faults", "-", &json!(faults))
        .unwrap();
    let (began, mut received) = (Instant::now(), 0);
    loop {
        let receive =
            json!({"QueueUrl": "x/demo", "MaxNumberOfMessages": 10, "VisibilityTimeout": 60});
        let got = client.sqs("ReceiveMessage", receive).unwrap();
        let Some(messages) = got["Messages"].as_array() else {
            break;
        };
        received += messages.len();
        let entry = |(at, one): (usize, &Value)| json!({"Id": at.to_string(), "ReceiptHandle": one["ReceiptHandle"]});
        let entries: Vec<Value> = messages.iter().enumerate().map(entry).collect();
        client
            .sqs(
                "DeleteMessageBatch",
                json!({"QueueUrl": "x/demo", "Entries": entries}),
            )
            .unwrap();
    }
    let took = began.elapsed();
    eprintln!("10 000 messages, {received} received with duplicates, {took:.1?}");
    assert!(
        received >= 10_000 && took < Duration::from_secs(60),
        "{received} in {took:?}"
    );
}
