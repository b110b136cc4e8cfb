//! Launch groups: one CreateFleet for many NodeClaims, and what is known of it afterwards.

use longshore_cloud::{GroupAnswer, GroupLaunch};

use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// So many instances of a group of five.
fn group(count: usize, requirements: &[(&str, &[&str])]) -> GroupLaunch {
    GroupLaunch {
        token: TOKEN.to_owned(),
        count,
        size: 5,
        launch: claim(1, requirements),
    }
}

fn ids(answer: &GroupAnswer) -> BTreeSet<String> {
    let all = answer.instances.iter();
    all.map(|one| id(&one.provider_id)).collect()
}

impl Cloud {
    async fn group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        self.provider.create_group(group).await
    }

    async fn ids(&self) -> BTreeSet<String> {
        self.living().await.into_iter().collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_shares_a_call_and_its_instances_have_its_tag() {
    let cloud = Cloud::new(account()).await;
    let before = cloud.count("CreateFleet").await;
    let made = cloud.group(&group(5, &[])).await.unwrap();
    assert_eq!((made.instances.len(), made.settled), (5, true));
    assert_eq!((ids(&made), made.short.clone()), (cloud.ids().await, None));
    let first = &made.instances[0];
    assert_eq!(first.group.as_deref(), Some(TOKEN));
    assert_eq!(first.claim_uid.as_deref(), Some(""));
    assert!(first.capacity.contains_key("cpu") && first.image_id.is_some());
    let world = cloud.world().await;
    let tags = &world["instances"][0]["tags"];
    assert_eq!(tags["longshore.dev/launch-group"], TOKEN);
    for other in ["karpenter.sh/nodeclaim", "longshore.dev/nodeclaim-uid"] {
        assert!(tags[other].is_null(), "{tags}");
    }
    // Whoever comes late hears of the same, without a call.
    let again = cloud.group(&group(1, &[])).await.unwrap();
    assert_eq!(again, made);
    assert_eq!(cloud.count("CreateFleet").await, before + 1);
    let listed = cloud.provider.list().await.unwrap();
    let of_group = |one: &Arc<longshore_cloud::Instance>| one.group.as_deref() == Some(TOKEN);
    assert!(listed.len() == 5 && listed.iter().all(of_group));
    // A message of the queue that is about one of them waits until a NodeClaim names it.
    let own = id(&first.provider_id);
    let error = cloud.provider.claim_of(&own).await.unwrap_err();
    assert!(error.to_string().contains("no NodeClaim names it yet"));
    let tagged = cloud
        .provider
        .tag_node(&first.provider_id, "ip-10-0-0-1", "default-7");
    tagged.await.unwrap();
    let name = cloud.provider.claim_of(&own).await.unwrap();
    assert_eq!(name.as_deref(), Some("default-7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_reply_is_lost_is_asked_for_again_and_bought_once() {
    let mut cloud = Cloud::new(account()).await;
    let lost = |times: u32| json!([{"drop": {"when": "after", "on": {"action": "CreateFleet", "times": times}}}]);
    cloud.faults(lost(3)).await;
    let error = cloud.group(&group(4, &[])).await.unwrap_err();
    assert!(matches!(error, CloudError::Other(_)), "{error:?}");
    assert_eq!(cloud.living().await.len(), 4);
    // Another number is wanted now: the request is the one that was sent.
    let made = cloud.group(&group(5, &[])).await.unwrap();
    assert_eq!((ids(&made), made.settled), (cloud.ids().await, true));
    assert_eq!((made.instances.len(), made.short), (4, None));
    // Another process cannot send the same. It finds them by their tag, and does not know that there
    // are no more.
    cloud.restart().await;
    let other: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    let found = cloud.group(&group(2, other)).await.unwrap();
    assert_eq!((ids(&found), found.settled), (cloud.ids().await, false));
    let asked = cloud.count("CreateFleet").await;
    cloud.ahead.store(299, Ordering::Relaxed);
    assert!(!cloud.group(&group(2, other)).await.unwrap().settled);
    cloud.ahead.store(302, Ordering::Relaxed);
    let found = cloud.group(&group(2, other)).await.unwrap();
    assert_eq!((ids(&found), found.settled), (cloud.ids().await, true));
    assert_eq!(found.instances.len(), 4);
    assert_eq!(cloud.count("CreateFleet").await, asked, "the token is used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_ec2_is_blind_a_group_is_not_bought_twice() {
    let mut cloud = Cloud::new(account()).await;
    cloud.faults(json!([{"lag": [600_000, 600_000]}])).await;
    let made = cloud.group(&group(5, &[])).await.unwrap();
    assert_eq!(cloud.provider.list().await.unwrap().len(), 5);
    cloud.restart().await;
    let other: &[(&str, &[&str])] = &[(CAPACITY_TYPE, &["on-demand"])];
    let found = cloud.group(&group(3, other)).await.unwrap();
    assert_eq!(found, GroupAnswer::default(), "none shows, and some may");
    cloud.faults(json!([{"lag": [0, 0]}])).await;
    let found = cloud.group(&group(3, other)).await.unwrap();
    assert_eq!((ids(&found), found.settled), (ids(&made), true));
    assert_eq!(cloud.living().await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_capacity_is_short_for_is_settled_with_what_there_is() {
    let cloud = Cloud::new(account()).await;
    let rule = |zone: &str, free: u32| json!({"capacity": {"instanceType": "m5.large", "zone": zone, "free": free}});
    let rules = [("us-east-1a", 2), ("us-east-1b", 1), ("us-east-1c", 0)];
    cloud
        .faults(
            rules
                .map(|(zone, free)| rule(zone, free))
                .into_iter()
                .collect(),
        )
        .await;
    let wanted: &[(&str, &[&str])] = &[(KIND, &["m5.large"]), (CAPACITY_TYPE, &["on-demand"])];
    let made = cloud.group(&group(5, wanted)).await.unwrap();
    assert_eq!((made.instances.len(), made.settled), (3, true));
    let Some(CloudError::InsufficientCapacity(short)) = &made.short else {
        panic!("{:?}", made.short)
    };
    assert_eq!(short.offerings.len(), 3);
    // Another group hears of it without a call.
    let other = GroupLaunch {
        token: "another".to_owned(),
        ..group(5, wanted)
    };
    let asked = cloud.count("CreateFleet").await;
    let error = cloud.group(&other).await.unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity(_)));
    assert_eq!(cloud.count("CreateFleet").await, asked);
    assert_eq!(cloud.living().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_refused_whole_has_its_token_still() {
    let cloud = Cloud::new(account()).await;
    let on = json!({"action": "CreateFleet", "times": 1});
    let code = "UnauthorizedOperation";
    cloud
        .faults(json!([{"error": {"code": code, "on": on, "when": "before"}}]))
        .await;
    let error = cloud.group(&group(5, &[])).await.unwrap_err();
    assert!(matches!(error, CloudError::Unauthorized(_)), "{error:?}");
    let made = cloud.group(&group(3, &[])).await.unwrap();
    assert_eq!((made.instances.len(), made.settled), (3, true));
    let world = cloud.world().await;
    assert_eq!(world["instances"].as_array().unwrap().len(), 3);
}
