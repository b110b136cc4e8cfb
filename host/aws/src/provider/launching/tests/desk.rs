//! EC2 as `oracle-aws` plays it: it notes what is asked for and answers from the case. A fleet gets
//! the cheapest override that is not refused.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::lock::lock;

/// What the desk was asked for, and what it answers.
pub struct Desk {
    case: Value,
    asked: Mutex<Vec<Value>>,
}

/// An error of EC2's.
struct Refusal {
    code: String,
    message: String,
}

impl Desk {
    /// Opens on loopback for a case of the vectors.
    pub async fn open(case: &Value) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Arc::new(Desk {
            case: case["world"].clone(),
            asked: Mutex::default(),
        });
        let own = desk.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = own.clone();
                tokio::spawn(async move { own.serve(stream).await });
            }
        });
        (desk, address)
    }

    /// The requests of an action.
    pub fn asked(&self, action: &str) -> Vec<Value> {
        let all = lock(&self.asked);
        let of_action = |one: &&Value| one["Action"] == action;
        all.iter().filter(of_action).cloned().collect()
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(number) = line.strip_prefix("content-length:") {
                    length = number.trim().parse().ok()?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            let request = tree(&String::from_utf8(body).ok()?);
            lock(&self.asked).push(request.clone());
            let (status, answer) = self.answer(&request);
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/xml\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all(head.as_bytes()).await.ok()?;
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    fn answer(&self, request: &Value) -> (&'static str, String) {
        match request["Action"].as_str() {
            Some("CreateLaunchTemplate") => {
                let name = request["LaunchTemplateName"].as_str().unwrap();
                let inside = format!(
                    "<launchTemplate><launchTemplateName>{name}</launchTemplateName></launchTemplate>"
                );
                ok("CreateLaunchTemplate", &inside)
            }
            Some("CreateFleet") => match refusal(&self.case["fleetError"]) {
                Some(refusal) => refused(&refusal),
                None => ok("CreateFleet", &self.fleet(request)),
            },
            other => refused(&Refusal {
                code: "InvalidAction".to_owned(),
                message: format!("{other:?}"),
            }),
        }
    }

    fn fleet(&self, request: &Value) -> String {
        let mut all: Vec<(f64, String, String)> = Vec::new();
        let mut errors = String::new();
        for config in list(&request["LaunchTemplateConfigs"]) {
            let template = &config["LaunchTemplateSpecification"]["LaunchTemplateName"];
            for own in list(&config["Overrides"]) {
                let chosen = chosen(template.as_str().unwrap(), own);
                let place = place(own);
                if let Some(Refusal { code, message }) = self.refusal_of(own) {
                    _ = write!(
                        errors,
                        "<item>{chosen}<lifecycle>on-demand</lifecycle><errorCode>{code}</errorCode>\
                         <errorMessage>{}</errorMessage></item>",
                        escaped(&message)
                    );
                } else {
                    all.push((own["Priority"].as_f64().unwrap(), place, chosen));
                }
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let instance = all.first().map_or(String::new(), |(_, place, chosen)| {
            let kind = place.split(' ').next().unwrap();
            format!(
                "<item>{chosen}<instanceIds><item>i-1</item></instanceIds>\
                 <instanceType>{kind}</instanceType></item>"
            )
        });
        format!(
            "<fleetId>fleet-1</fleetId><errorSet>{errors}</errorSet>\
             <fleetInstanceSet>{instance}</fleetInstanceSet>"
        )
    }

    fn refusal_of(&self, own: &Value) -> Option<Refusal> {
        let names = |one: &Value, key: &str, of: &str| one[key].is_null() || one[key] == own[of];
        let all = self.case["refuse"].as_array()?.iter();
        let mut own = all.filter(|one| {
            names(one, "instanceType", "InstanceType") && names(one, "zone", "AvailabilityZone")
        });
        own.next().and_then(refusal)
    }
}

fn refusal(of: &Value) -> Option<Refusal> {
    let text = |key: &str| Some(of[key].as_str()?.to_owned());
    Some(Refusal {
        code: text("code")?,
        message: text("message")?,
    })
}

/// Type and zone of an override.
pub fn place(own: &Value) -> String {
    let text = |key: &str| own[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("InstanceType"), text("AvailabilityZone"))
}

pub fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

fn chosen(template: &str, own: &Value) -> String {
    let fields = [
        ("instanceType", "InstanceType"),
        ("availabilityZone", "AvailabilityZone"),
        ("subnetId", "SubnetId"),
        ("imageId", "ImageId"),
    ];
    let fields = fields.iter().filter_map(|(name, from)| {
        let value = own[from].as_str()?;
        Some(format!("<{name}>{value}</{name}>"))
    });
    format!(
        "<launchTemplateAndOverrides><launchTemplateSpecification><launchTemplateName>{template}\
         </launchTemplateName></launchTemplateSpecification><overrides>{}</overrides>\
         </launchTemplateAndOverrides>",
        fields.collect::<String>()
    )
}

fn ok(action: &str, inside: &str) -> (&'static str, String) {
    let all = format!("<{action}Response><requestId>r-1</requestId>{inside}</{action}Response>");
    ("200 OK", all)
}

fn refused(Refusal { code, message }: &Refusal) -> (&'static str, String) {
    let all = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>{}</Message></Error></Errors>\
         <RequestID>r-1</RequestID></Response>",
        escaped(message)
    );
    ("400 Bad Request", all)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

/// Lists of the wire whose name is another one in EC2's API.
const NAMES: [(&str, &str); 6] = [
    ("BlockDeviceMapping", "BlockDeviceMappings"),
    ("NetworkInterface", "NetworkInterfaces"),
    ("ReservationType", "ReservationTypes"),
    ("SecurityGroupId", "Groups"),
    ("Tag", "Tags"),
    ("TagSpecification", "TagSpecifications"),
];

/// A request of the query protocol as the tree that its names describe, leaves as texts, numbers of
/// priorities as numbers.
pub fn tree(body: &str) -> Value {
    let mut whole = Value::Object(Map::new());
    for pair in body.split('&') {
        let (key, value) = pair.split_once('=').unwrap();
        let mut at = &mut whole;
        for part in key.split('.') {
            let number = part.parse::<usize>();
            let renamed = NAMES.iter().find(|(wire, _)| *wire == part);
            let part = renamed.map_or(part, |(_, name)| name);
            at = match number {
                Ok(number) => {
                    if !at.is_array() {
                        *at = Value::Array(Vec::new());
                    }
                    let all = at.as_array_mut().unwrap();
                    if all.len() < number {
                        all.resize(number, Value::Null);
                    }
                    &mut all[number - 1]
                }
                Err(_) => {
                    if !at.is_object() {
                        *at = Value::Object(Map::new());
                    }
                    let all = at.as_object_mut().unwrap();
                    all.entry(part).or_insert(Value::Null)
                }
            };
        }
        let text = decoded(value);
        *at = match key.ends_with(".Priority") {
            true => text.parse::<f64>().unwrap().into(),
            false => text.into(),
        };
    }
    whole
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| char::from(digit.unwrap()).to_digit(16).unwrap() as u8;
        bytes.push(match byte {
            b'%' => hex(rest.next()) << 4 | hex(rest.next()),
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}
