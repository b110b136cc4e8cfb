//! A world to call, and replies as text.
#![allow(dead_code)]

use longshore_emulator::{Account, Reply, Request, Response, Time, World, handle};

/// When tests begin.
pub const START: Time = Time(1_795_588_683_000);

/// A world that answers without lag and limits.
pub fn world() -> World {
    let mut account = Account::default_region();
    account.settings.lag_milliseconds = (0, 0);
    account.settings.profile_milliseconds = 0;
    account.settings.throttle = false;
    account.settings.duplicate_share = 0.0;
    World::new(account, 1)
}

/// A signed request with a form.
pub fn form(service: &str, body: &str) -> Request {
    Request {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        query: String::new(),
        headers: vec![("authorization".to_owned(), scope(service))],
        body: body.as_bytes().to_vec(),
    }
}

fn scope(service: &str) -> String {
    format!("AWS4-HMAC-SHA256 Credential=AKID/20261125/us-east-1/{service}/aws4_request")
}

/// A request with a target.
pub fn target(target: &str, body: &str) -> Request {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Request {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        query: String::new(),
        headers: vec![
            header("x-amz-target", target),
            header("host", "127.0.0.1:4566"),
        ],
        body: body.as_bytes().to_vec(),
    }
}

/// A request without a body or signature.
pub fn get(path: &str) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        ..Request::default()
    }
}

/// Adds faults at the start: status and body.
pub fn post_faults(world: &mut World, faults: &str) -> String {
    let request = Request {
        method: "POST".to_owned(),
        path: "/_emulator/faults".to_owned(),
        body: faults.as_bytes().to_vec(),
        ..Request::default()
    };
    shown(&reply(world, START, &request))
}

/// The reply of a request that has one at once.
pub fn reply(world: &mut World, now: Time, request: &Request) -> Reply {
    match handle(world, now, request) {
        Response::Reply { reply, .. } => reply,
        other => panic!("no reply: {other:?}"),
    }
}

/// An EC2 call at the start: status and body, a line for each element that has text.
pub fn ec2(world: &mut World, query: &str) -> String {
    shown(&reply(world, START, &form("ec2", query)))
}

/// Status and body of a reply: an element of XML on each line, or the JSON.
pub fn shown(reply: &Reply) -> String {
    let body = reply.text();
    if !body.starts_with("<?xml") {
        // Long ones with a field on each line.
        let body = match body.len() > 90 {
            true => body.replace(",\"", ",\n\"").replace(",\\\"", ",\n\\\""),
            false => body.to_string(),
        };
        return format!("{} {body}\n", reply.status);
    }
    let mut path: Vec<String> = Vec::new();
    let mut out = format!("{}\n", reply.status);
    for part in body.split('<').skip(2) {
        let (tag, text) = part.split_once('>').unwrap_or((part, ""));
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(path.pop().as_deref(), Some(name), "{body}");
        } else if let Some(name) = tag.strip_suffix('/') {
            out.push_str(&format!("{}{name}/\n", "  ".repeat(path.len())));
        } else {
            let name = tag.split(' ').next().unwrap_or(tag);
            out.push_str(&format!("{}{name} {text}", "  ".repeat(path.len())));
            out.truncate(out.trim_end().len());
            out.push('\n');
            path.push(name.to_owned());
        }
    }
    assert!(path.is_empty(), "{body}");
    out
}

/// The text of the first element of a name in a shown reply.
pub fn text<'a>(shown: &'a str, name: &str) -> &'a str {
    let found = shown
        .lines()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {shown}"))
}

/// Creates a launch template named `t`.
pub fn template(world: &mut World, more: &str) -> String {
    let query = format!(
        "Action=CreateLaunchTemplate&LaunchTemplateName=ttt\
         &LaunchTemplateData.NetworkInterface.1.DeviceIndex=0\
         &LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1=sg-00000000000000001\
         &LaunchTemplateData.ImageId={IMAGE}{more}"
    );
    text(&ec2(world, &query), "launchTemplateId").to_owned()
}

/// An AL2023 image for x86_64.
pub const IMAGE: &str = "ami-00000000000000a00";

/// A CreateFleet of template `t` with overrides of type and zone letter.
pub fn fleet(count: u32, kind: &str, overrides: &[(&str, char)], more: &str) -> String {
    let mut query = format!(
        "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity={count}\
         &TargetCapacitySpecification.DefaultTargetCapacityType={kind}\
         &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=ttt\
         &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=$Latest{more}"
    );
    for (at, (instance_type, zone)) in overrides.iter().enumerate() {
        let number = at + 1;
        let subnet = 1 + (*zone as u8 - b'a');
        query.push_str(&format!(
            "&LaunchTemplateConfigs.1.Overrides.{number}.InstanceType={instance_type}\
             &LaunchTemplateConfigs.1.Overrides.{number}.SubnetId=subnet-{subnet:017x}"
        ));
    }
    query
}
