use expect_test::expect;

use super::*;

fn event(source: &str, detail_type: &str, detail: &str) -> String {
    format!(
        r#"{{"version":"0","source":"{source}","detail-type":"{detail_type}","time":"2026-11-21T08:00:00Z","detail":{detail}}}"#
    )
}

fn said(message: &str) -> String {
    match read(message) {
        Ok(one) => format!(
            "{} {} {}",
            one.kind.as_str(),
            one.instances.join(" "),
            one.sent
        ),
        Err(why) => format!("- {why}"),
    }
}

#[test]
fn every_kind_of_event_is_read() {
    let ec2 = |kind: &str, detail: &str| event("aws.ec2", kind, detail);
    let state = |state: &str| {
        let detail = format!(r#"{{"instance-id":"i-0a","state":"{state}"}}"#);
        ec2("EC2 Instance State-change Notification", &detail)
    };
    let health = |detail: &str| event("aws.health", "AWS Health Event", detail);
    let all = [
        ec2(
            "EC2 Spot Instance Interruption Warning",
            r#"{"instance-id":"i-0a","instance-action":"terminate"}"#,
        ),
        ec2(
            "EC2 Instance Rebalance Recommendation",
            r#"{"instance-id":"i-0a"}"#,
        ),
        ec2(
            "EC2 Capacity Reservation Instance Interruption Warning",
            r#"{"instance-id":"i-0a"}"#,
        ),
        state("stopping"),
        state("terminated"),
        state("running"),
        health(
            r#"{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-0b"},{"entityValue":"i-0a"},{"entityValue":"i-0a"},{"entityValue":"vol-1"}]}"#,
        ),
        health(r#"{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[]}"#),
        health(r#"{"service":"RDS","eventTypeCategory":"scheduledChange"}"#),
    ];
    let all: Vec<String> = all.iter().map(|message| said(message)).collect();
    expect![[r#"
        spot_interrupted i-0a 2026-11-21T08:00:00Z
        rebalance_recommendation i-0a 2026-11-21T08:00:00Z
        capacity_reservation_interrupted i-0a 2026-11-21T08:00:00Z
        instance_stopped i-0a 2026-11-21T08:00:00Z
        instance_terminated i-0a 2026-11-21T08:00:00Z
        - the event asks for nothing: state "running"
        scheduled_change i-0a i-0b 2026-11-21T08:00:00Z
        - the event asks for nothing: it names no instance
        - the event asks for nothing: "scheduledChange" of "RDS""#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn rubbish_is_told_from_events_of_others() {
    let warning = "EC2 Spot Instance Interruption Warning";
    let all = [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "{".to_owned(),
        "{}".to_owned(),
        event("aws.s3", "Object Created", "{}"),
        event("aws.ec2", warning, r#"{"instance-id":7}"#),
        event("aws.ec2", warning, r#"{"instance-id":"i-"}"#),
        event("aws.ec2", warning, r#"{"instance-id":"i-../../x"}"#),
        event("aws.ec2", warning, "null"),
        event("aws.ec2", warning, r#"{"instance-id":"i-0a"}"#).replace("\"0\"", "\"1\""),
    ];
    let all: Vec<String> = all.iter().map(|message| said(message)).collect();
    assert!(all.iter().all(|said| said.starts_with("- ")), "{all:#?}");
    let long = event(&"x".repeat(100_000), "y", "{}");
    assert!(
        said(&long).len() < 500,
        "what is written about a message has a bound"
    );
}
