//! Faults, interruptions, lag, throttling and the kubelet stand-in.

use crate::common::{
    START, ec2, fleet, form, get, post_faults, reply, shown, target, template, text, world,
};
use base64::Engine as _;
use expect_test::expect;
use longshore_emulator::{Request, Response, World, handle, kubelet};

fn bought(world: &mut World, kind: &str, more: &str) -> String {
    template(world, more);
    text(
        &ec2(world, &fleet(1, kind, &[("m5.large", 'a')], "")),
        "item",
    )
    .to_owned()
}

#[test]
fn wrong_faults_are_refused_as_a_whole() {
    let world = &mut world();
    for (faults, said) in [
        ("[{\"capacity\": {\"fre\": 1}}]", "unknown field `fre`"),
        ("[{\"dely\": {}}]", "unknown variant `dely`"),
        (
            "[{\"lag\": [0, 1]}, {\"capacity\": {\"zone\": \"x\"}}]",
            "fault 1: there is no zone `x`",
        ),
        (
            "[{\"interrupt\": {\"instance\": \"i-0\"}}]",
            "there is no instance i-0",
        ),
        ("[{\"throttle\": {\"share\": 2}}]", "`share` is 2"),
        (
            "[{\"delay\": {\"on\": {\"service\": \"s3\"}, \"milliseconds\": 1}}]",
            "no service `s3`",
        ),
    ] {
        let answer = post_faults(world, faults);
        assert!(
            answer.starts_with("400") && answer.contains(said),
            "{answer}"
        );
    }
    assert!(shown(&reply(world, START, &get("/_emulator/faults"))).contains("\"faults\":[]"));
}

#[test]
fn errors_strike_before_or_after_the_commit() {
    let world = &mut world();
    template(world, "");
    let query = fleet(1, "spot", &[("m5.large", 'a')], "&ClientToken=t");
    let error = |when: &str| {
        format!(
            "[{{\"error\": {{\"on\": {{\"action\": \"CreateFleet\", \"times\": 1}}, \
             \"when\": \"{when}\", \"code\": \"InternalError\"}}}}]"
        )
    };
    post_faults(world, &error("before"));
    assert_eq!(text(&ec2(world, &query), "Code"), "InternalError");
    assert_eq!(world.instances().count(), 0);
    post_faults(world, &error("after"));
    assert_eq!(ec2(world, &query).lines().next(), Some("500"));
    assert_eq!(world.instances().count(), 1);
    // The same token gets the answer that was lost.
    assert!(text(&ec2(world, &query), "item").starts_with("i-"));
    assert_eq!(world.instances().count(), 1);
    post_faults(
        world,
        "[{\"drop\": {\"when\": \"after\", \"on\": {\"action\": \"TerminateInstances\"}}},
                 {\"delay\": {\"milliseconds\": 250}}]",
    );
    let id = world.instances().next().unwrap().id.clone();
    let end = form(
        "ec2",
        &format!("Action=TerminateInstances&InstanceId.1={id}"),
    );
    assert_eq!(handle(world, START, &end), Response::Drop { delay: 250 });
    assert_eq!(
        world.instances().next().unwrap().state.name(),
        "shutting-down"
    );
    let calls = shown(&reply(world, START, &get("/_emulator/calls?after=4")));
    expect![[r#"
        200 {"calls":[{"action":"TerminateInstances",
        "at":"2026-11-25T06:38:03.000Z",
        "faults":["drop after",
        "delay"],
        "number":5,
        "request":"Action=TerminateInstances&InstanceId.1=i-7476cf8a4baa5dc08",
        "requestId":"b6b9aeef-0d2d-f7ab-0b33-1645445bcd27",
        "service":"ec2"}]}
    "#]]
    .assert_eq(&calls.replace("},{", "},\n{"));
}

#[test]
fn bodies_are_replaced_and_cut() {
    let world = &mut world();
    post_faults(
        world,
        "[{\"body\": {\"on\": {\"times\": 1}, \"body\": \"<html>\", \"status\": 502}},
                 {\"body\": {\"bytes\": 30}}]",
    );
    let vpcs = form("ec2", "Action=DescribeVpcs");
    let first = reply(world, START, &vpcs);
    assert_eq!((first.status, &*first.text()), (502, "<html>"));
    assert_eq!(reply(world, START, &vpcs).body.len(), 30);
    let clear = Request {
        method: "DELETE".to_owned(),
        path: "/_emulator/faults".to_owned(),
        ..Request::default()
    };
    reply(world, START, &clear);
    assert!(reply(world, START, &vpcs).body.len() > 30);
}

#[test]
fn an_interruption_warns_two_minutes_before_the_end() {
    let world = &mut world();
    let id = bought(world, "spot", "");
    let later = START.plus(20_000);
    reply(world, later, &get("/_emulator/world"));
    let interrupt = format!("[{{\"interrupt\": {{\"instance\": \"{id}\"}}}}]");
    let mut request = get("/_emulator/faults");
    request.method = "POST".to_owned();
    request.body = interrupt.into_bytes();
    reply(world, later, &request);
    let receive = target(
        "AmazonSQS.ReceiveMessage",
        "{\"QueueUrl\":\"x/demo\",\"MaxNumberOfMessages\":10,\"VisibilityTimeout\":200}",
    );
    let mut bodies = |at| {
        let answer = reply(world, at, &receive);
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
        let body = |message: &serde_json::Value| {
            let body: serde_json::Value =
                serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
            let of = |name: &str| body["detail"][name].as_str().unwrap_or("-").to_owned();
            let known = body["detail"]["instance-id"] == *id;
            format!("{} {} {known}", body["detail-type"], of("state"))
        };
        messages.iter().map(body).collect::<Vec<_>>()
    };
    let change = |state: &str| format!("\"EC2 Instance State-change Notification\" {state} true");
    let warning = "\"EC2 Spot Instance Interruption Warning\" - true".to_owned();
    assert_eq!(
        bodies(later),
        [change("pending"), change("running"), warning]
    );
    assert_eq!(bodies(later.plus(119_999)), Vec::<String>::new());
    assert_eq!(bodies(later.plus(120_000)), [change("shutting-down")]);
    assert_eq!(bodies(later.plus(170_000)), [change("terminated")]);
}

#[test]
fn a_read_may_lag_and_a_write_does_not() {
    let world = &mut world();
    post_faults(world, "[{\"lag\": [5000, 5000]}]");
    let id = bought(world, "spot", "");
    let describe = form(
        "ec2",
        &format!("Action=DescribeInstances&InstanceId.1={id}"),
    );
    let code = |world: &mut _, at| {
        let answer = shown(&reply(world, at, &describe));
        answer
            .lines()
            .find_map(|line| line.trim().strip_prefix("Code ").map(str::to_owned))
    };
    assert_eq!(
        code(world, START.plus(4_999)).as_deref(),
        Some("InvalidInstanceID.NotFound")
    );
    assert_eq!(code(world, START.plus(5_000)), None);
    assert!(
        ec2(
            world,
            &format!("Action=TerminateInstances&InstanceId.1={id}")
        )
        .starts_with("200")
    );
}

#[test]
fn limits_hold_and_can_be_drained_by_others() {
    let mut account = world().account().clone();
    account.settings.throttle = true;
    let world = &mut World::new(account, 1);
    let vpcs = form("ec2", "Action=DescribeVpcs&MaxResults=5");
    let mut passed = |at| {
        (0..200)
            .filter(|_| reply(world, at, &vpcs).status == 200)
            .count()
    };
    assert_eq!((passed(START), passed(START.plus(1_000))), (100, 20));
    post_faults(
        world,
        "[{\"throttle\": {\"share\": 0.1, \"on\": {\"service\": \"ec2\"}}}]",
    );
    let mut passed = |at| {
        (0..200)
            .filter(|_| reply(world, at, &vpcs).status == 200)
            .count()
    };
    assert_eq!(passed(START.plus(61_000)), 10);
    post_faults(
        world,
        "[{\"throttle\": {\"share\": 0, \"on\": {\"service\": \"iam\"}}}]",
    );
    let answer = shown(&reply(
        world,
        START,
        &form("iam", "Action=ListInstanceProfiles"),
    ));
    assert_eq!(text(&answer, "Code"), "Throttling");
}

#[test]
fn an_impaired_instance_is_described_as_one() {
    let world = &mut world();
    let id = bought(world, "on-demand", "");
    let later = START.plus(20_000);
    post_faults(world, &format!("[{{\"impair\": {{\"instance\": \"{id}\", \"check\": \"system\"}}}},
                          {{\"impair\": {{\"instance\": \"{id}\", \"check\": \"instance-retirement\"}}}}]"));
    let status = |filter: &str| format!("Action=DescribeInstanceStatus&Filter.1.Name={filter}");
    let mut found = |filter: &str| shown(&reply(world, later, &form("ec2", &status(filter))));
    let impaired = found("system-status.status&Filter.1.Value.1=impaired");
    assert_eq!(text(&impaired, "impairedSince"), START.iso(), "{impaired}");
    assert!(found("event.code&Filter.1.Value.1=instance-retirement").contains("notBefore"));
    assert!(!found("instance-status.status&Filter.1.Value.1=impaired").contains("instanceId"));
}

#[test]
fn a_zonal_shift_is_described_until_it_ends() {
    let world = &mut world();
    let arn = "arn%3Aaws%3Aeks%3Aus-east-1%3A123456789012%3Acluster%2Fdemo";
    let request = get(&format!("/managedresources/{arn}"));
    let away = |world: &mut World, at| {
        let found = shown(&reply(world, at, &request));
        let lines = found.lines().filter(|line| line.contains("awayFrom"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(away(world, START).is_empty());
    post_faults(
        world,
        "[{\"shift\": {\"zone\": \"us-east-1a\", \"minutes\": 60}},
          {\"shift\": {\"zone\": \"use1-az1\", \"minutes\": 30}}]",
    );
    let zones = ["\"awayFrom\":\"use1-az6\"", "\"awayFrom\":\"use1-az1\""];
    let found = away(world, START);
    assert!(
        found.len() == 2
            && zones
                .iter()
                .zip(&found)
                .all(|(zone, line)| line.contains(zone))
    );
    assert_eq!(away(world, START.plus(30 * 60_000)).len(), 1);
    post_faults(
        world,
        "[{\"shift\": {\"zone\": \"us-east-1a\", \"minutes\": 0}}]",
    );
    assert!(away(world, START.plus(30 * 60_000)).is_empty());
    let other = shown(&reply(
        world,
        START,
        &get("/managedresources/arn%3Aaws%3Ax"),
    ));
    assert!(other.starts_with("404 "), "{other}");
}

#[test]
fn a_rebooted_instance_runs_and_one_that_ends_is_not_rebooted() {
    let world = &mut world();
    let id = bought(world, "on-demand", "");
    let reboot = format!("Action=RebootInstances&InstanceId.1={id}");
    assert!(ec2(world, &reboot).contains("return true"));
    let state = shown(&reply(world, START, &get("/_emulator/world")));
    assert!(state.contains("\"reboots\":1"), "{state}");
    ec2(
        world,
        &format!("Action=TerminateInstances&InstanceId.1={id}"),
    );
    assert_eq!(text(&ec2(world, &reboot), "Code"), "IncorrectState");
}

const USER_DATA: &str = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
Content-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  \
cluster:\n    name: demo\n    apiServerEndpoint: https://demo.eks.example\n    certificateAuthority: Y2E=\n    \
cidr: 10.100.0.0/16\n  kubelet:\n    config:\n      maxPods: 29\n      registerWithTaints:\n      - key: karpenter.sh/unregistered\n        \
effect: NoExecute\n    flags:\n    - --node-labels=\"karpenter.sh/nodepool=default,team=blue\"\n--//--\n";

fn with_user_data(text: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    let encoded = encoded.replace('+', "%2B").replace('=', "%3D");
    format!("&LaunchTemplateData.UserData={encoded}")
}

#[test]
fn a_kubelet_joins_as_its_user_data_says() {
    let world = &mut world();
    bought(world, "spot", &with_user_data(USER_DATA));
    let later = START.plus(10_000);
    reply(world, later, &get("/_emulator/world"));
    let one = world.instances().next().unwrap().clone();
    let early = kubelet::join(world, &one, later).unwrap_err();
    assert!(
        early.to_string().starts_with("the instance boots until"),
        "{early}"
    );
    let node = kubelet::join(world, &one, START.plus(120_000)).unwrap();
    let labels: Vec<String> = node
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    expect![[r#"
        ip-10-0-0-4.ec2.internal demo ["karpenter.sh/unregistered:NoExecute"] Some(29)
        karpenter.sh/nodepool=default
        kubernetes.io/arch=amd64
        kubernetes.io/hostname=ip-10-0-0-4.ec2.internal
        kubernetes.io/os=linux
        node.kubernetes.io/instance-type=m5.large
        team=blue
        topology.k8s.aws/zone-id=use1-az6
        topology.kubernetes.io/region=us-east-1
        topology.kubernetes.io/zone=us-east-1a
    "#]]
    .assert_eq(&format!(
        "{} {} {:?} {:?}\n{}",
        node.name,
        node.cluster,
        node.taints,
        node.max_pods,
        labels.concat()
    ));
}

#[test]
fn a_kubelet_says_why_it_does_not_join() {
    for (user_data, said) in [
        (String::new(), "has another kind than NodeConfig"),
        (
            USER_DATA.replace("name: demo", "name: other"),
            "names the cluster \"other\"",
        ),
        (
            USER_DATA.replace("application/node.eks.aws", "text/x-shellscript"),
            "no part is a NodeConfig",
        ),
        (
            USER_DATA.replace("    name: demo\n", ""),
            "has no name of a cluster",
        ),
    ] {
        let world = &mut world();
        bought(world, "spot", &with_user_data(&user_data));
        let one = world.instances().next().unwrap().clone();
        let why = kubelet::read(world.account(), &one)
            .unwrap_err()
            .to_string();
        assert!(why.contains(said), "{said}: {why}");
    }
}
