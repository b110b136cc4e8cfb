//! What CreateFleet was asked for and answered, call by call: whether an offering without capacity
//! was asked for again too soon, and whether a claim had two calls in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_aws::launch::fleet::{GROUP_TAG, UID_TAG};

/// Type, zone, capacity type.
pub(super) type Offering = (String, String, String);

/// Codes that say that an offering has no capacity.
const SHORT: [&str; 3] = [
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "UnfulfillableCapacity",
];

/// A request may have left before the answer to another one was read.
const ANSWER_DELAY: Duration = Duration::from_millis(20);

/// The calls of an account.
#[derive(Default)]
pub(super) struct Fleets(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// When a process last got the error that an offering is short.
    short: BTreeMap<(String, Offering), Duration>,
    /// Calls in flight, by process and claim.
    open: BTreeMap<(String, String), u32>,
    /// Offerings that a process asked for again, and after how long.
    again: Vec<(Duration, String)>,
    twice: Vec<String>,
    /// Tokens of calls. One that comes again is the same request, whose reply was lost.
    tokens: BTreeSet<String>,
    /// Most instances that were asked for at once, by launch group.
    wanted: BTreeMap<String, u64>,
    failed: u64,
    lacked: u64,
    shortages: u64,
}

/// A request that can be read.
pub(super) struct Asked {
    /// The UID of the claim, or the token of the launch group.
    pub uid: String,
    /// How many instances are wanted.
    pub count: u64,
    /// The token of the request.
    pub token: String,
    pub offerings: Vec<Offering>,
}

/// A call that is in flight.
pub(super) struct Open<'a> {
    fleets: &'a Fleets,
    key: (String, String),
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.fleets.kept().open.get_mut(&self.key) {
            *count -= 1;
        }
    }
}

/// Reads the form of a request; nothing if it buys nothing.
pub(super) fn read(body: &[u8], zone_of: impl Fn(&str) -> String) -> Option<Asked> {
    let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
    let get = |key: &str| form.get(key).map(String::as_str);
    if get("Action") != Some("CreateFleet") || get("DryRun") == Some("true") {
        return None;
    }
    let kind = get("TargetCapacitySpecification.DefaultTargetCapacityType").unwrap_or_default();
    let own = |value: &str| [UID_TAG, GROUP_TAG].contains(&value);
    let tag = form.iter().find(|(_, value)| own(value));
    let uid = tag.and_then(|(key, _)| get(&format!("{}Value", key.strip_suffix("Key")?)));
    let types = form.iter().filter_map(|(key, kind)| {
        let own = key.strip_suffix("InstanceType")?;
        own.contains(".Overrides.").then_some((own, kind))
    });
    let offerings = types.map(|(own, instance_type)| {
        let subnet = get(&format!("{own}SubnetId")).unwrap_or_default();
        (instance_type.clone(), zone_of(subnet), kind.to_owned())
    });
    Some(Asked {
        uid: uid.unwrap_or_default().to_owned(),
        count: get("TargetCapacitySpecification.TotalTargetCapacity")
            .and_then(|count| count.parse().ok())
            .unwrap_or(0),
        token: get("ClientToken").unwrap_or_default().to_owned(),
        offerings: offerings.collect(),
    })
}

/// Types and subnets of a reply that have no capacity.
fn lacking(reply: &str) -> Vec<(String, String)> {
    let between = |text: &str, tag: &str| {
        let rest = text.split(&format!("<{tag}>")).nth(1)?;
        Some(rest.split('<').next()?.to_owned())
    };
    let mut found = Vec::new();
    for part in reply.split("<launchTemplateAndOverrides>").skip(1) {
        let code = between(part, "errorCode").unwrap_or_default();
        if SHORT.contains(&&*code) {
            let kind = between(part, "instanceType").unwrap_or_default();
            found.push((kind, between(part, "subnetId").unwrap_or_default()));
        }
    }
    found
}

impl Fleets {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call leaves a process.
    pub fn begin(&self, process: &str, asked: &Asked, now: Duration) -> Open<'_> {
        let key = (process.to_owned(), asked.uid.clone());
        let mut kept = self.kept();
        let new = kept.tokens.insert(asked.token.clone());
        let most = kept.wanted.entry(asked.uid.clone()).or_default();
        *most = asked.count.max(*most);
        for offering in asked.offerings.iter().filter(|_| new) {
            let known = (process.to_owned(), offering.clone());
            if let Some(at) = kept.short.get(&known)
                && *at + ANSWER_DELAY < now
            {
                let after = now - *at;
                let (kind, zone, capacity) = offering;
                let line = format!(
                    "{process} asks for {kind}/{zone}/{capacity} {:.1} s after it was short",
                    after.as_secs_f64()
                );
                kept.again.push((after, line));
            }
        }
        let count = kept.open.entry(key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let line = format!("{process} has two CreateFleet in flight for {}", asked.uid);
            kept.twice.push(line);
        }
        Open { fleets: self, key }
    }

    /// Its answer has come.
    pub fn answered(
        &self,
        process: &str,
        asked: &Asked,
        reply: &str,
        zone_of: impl Fn(&str) -> String,
        now: Duration,
    ) {
        let mut kept = self.kept();
        let failed = !reply.contains("<instanceIds>");
        kept.failed += u64::from(failed);
        let capacity = asked.offerings.first().map(|one| one.2.clone());
        let lacking = lacking(reply);
        kept.lacked += u64::from(failed && !lacking.is_empty());
        kept.shortages += lacking.len() as u64;
        for (kind, subnet) in lacking {
            let offering = (kind, zone_of(&subnet), capacity.clone().unwrap_or_default());
            kept.short.insert((process.to_owned(), offering), now);
        }
    }

    /// Calls that bought nothing, and those of them for want of capacity.
    pub fn counts(&self) -> (u64, u64) {
        let kept = self.kept();
        (kept.failed, kept.lacked)
    }

    /// How many instances were asked for at once at most, for a launch group.
    pub fn wanted(&self, token: &str) -> u64 {
        self.kept().wanted.get(token).copied().unwrap_or(0)
    }

    /// How often an offering was said to have no capacity.
    pub fn shortages(&self) -> u64 {
        self.kept().shortages
    }

    /// Offerings that were asked for again within `time`, and claims with two calls in flight.
    pub fn faults(&self, time: Duration) -> Vec<String> {
        let kept = self.kept();
        let again = kept.again.iter().filter(|(after, _)| *after < time);
        let again = again.map(|(_, line)| line.clone());
        again.chain(kept.twice.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_a_reply_are_read() {
        let body = "Action=CreateFleet&TargetCapacitySpecification.DefaultTargetCapacityType=spot\
            &LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large\
            &LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-1\
            &TagSpecification.1.Tag.2.Key=longshore.dev%2Fnodeclaim-uid\
            &TagSpecification.1.Tag.2.Value=uid-1\
            &TargetCapacitySpecification.TotalTargetCapacity=3";
        let zone = |subnet: &str| format!("zone of {subnet}");
        let mut asked = read(body.as_bytes(), zone).unwrap();
        assert_eq!((&*asked.uid, asked.count), ("uid-1", 3));
        let group = body.replace("nodeclaim-uid", "launch-group");
        let group = read(group.as_bytes(), zone).unwrap();
        assert_eq!(group.uid, "uid-1", "the token of a launch group");
        let offering = ("m5.large", "zone of subnet-1", "spot");
        let (kind, own, capacity) = &asked.offerings[0];
        assert_eq!((&**kind, &**own, &**capacity), offering);
        let dry = format!("{body}&DryRun=true");
        assert!(read(dry.as_bytes(), zone).is_none());
        let reply = "<errorSet><item><launchTemplateAndOverrides><overrides>\
            <instanceType>m5.large</instanceType><subnetId>subnet-1</subnetId></overrides>\
            </launchTemplateAndOverrides><errorCode>InsufficientInstanceCapacity</errorCode></item>\
            </errorSet>";
        let fleets = Fleets::default();
        let second = Duration::from_secs;
        drop(fleets.begin("a", &asked, second(1)));
        fleets.answered("a", &asked, reply, zone, second(2));
        assert_eq!(fleets.counts(), (1, 1));
        asked.token = "another".to_owned();
        drop(fleets.begin("a", &asked, second(182)));
        assert_eq!(fleets.faults(second(180)), [""; 0]);
        assert_eq!(fleets.faults(second(181)).len(), 1);
        drop(fleets.begin("a", &asked, second(3)));
        assert_eq!(fleets.faults(second(180)), [""; 0], "the same request");
        let _open = fleets.begin("b", &asked, second(3));
        assert_eq!(fleets.faults(second(1)), [""; 0]);
        drop(fleets.begin("b", &asked, second(3)));
        assert_eq!(fleets.faults(second(1)).len(), 1);
    }
}
