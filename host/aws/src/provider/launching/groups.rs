//! The launch of a group of equal NodeClaims with one request.

use std::collections::BTreeMap;

use longshore_cloud::{CloudError, GroupAnswer, GroupLaunch, Launch};

use super::{LAUNCH_ATTEMPTS, Next, digest, hashes, templates_gone};
use crate::launch::fleet::GROUP_TAG;
use crate::provider::state::Group;
use crate::provider::{Ec2, MAX_DESCRIBE_DELAY_SECONDS, ProviderState};

impl Ec2 {
    /// Launches the instances of a group, or answers with those that are there.
    pub(in crate::provider) async fn launch_group(
        &self,
        group: &GroupLaunch,
    ) -> Result<GroupAnswer, CloudError> {
        if group.token.is_empty() || group.count == 0 {
            let what = format!("launch group {:?} of {}", group.token, group.count);
            return Err(CloudError::Invalid(what));
        }
        let class = self.class(&group.launch.class_name).await.ok();
        let work = self.group_in_turn(group);
        let mut answer = self.in_turn(&group.token, work).await?;
        let hashes = hashes(class.as_ref());
        for instance in &mut answer.instances {
            let own = hashes
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()));
            instance.annotations.extend(own);
        }
        Ok(answer)
    }

    async fn group_in_turn(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        let token = &*group.token;
        let launch = Launch {
            uid: token.to_owned(),
            ..group.launch.clone()
        };
        let used = {
            let mut state = self.state();
            if let Some(answer) = state.group(token, self.now()) {
                return Ok(answer);
            }
            let own = state.launches.get(token);
            own.is_some_and(|own| own.reused.is_some())
        };
        // Another request has the token. Whatever is asked for now, the answer is the same.
        if used {
            return self.find_group(group).await;
        }
        let (class, begun) = self.begin(&launch).await?;
        for _ in 0..LAUNCH_ATTEMPTS {
            let (fleet, next) = (self.attempt(&launch, Some(group.count), &class, begun)).await?;
            match next {
                Next::Done(all, short) => {
                    let now = self.now();
                    let made = all.iter().map(|one| {
                        let facts = self.facts_of(&launch, &class, &fleet, one);
                        let annotations = digest(&fleet, one).into_iter().collect();
                        self.state().made(facts, now);
                        (one.id.clone(), annotations)
                    });
                    let known = Group {
                        made: made.collect(),
                        short,
                        touched: now,
                    };
                    let mut state = self.state();
                    state.keep_group(token, known);
                    tracing::info!(
                        group = token,
                        nodeclaims = launch.name,
                        wanted = fleet.count,
                        instances = all.len(),
                        capacity_type = fleet.capacity_type.as_str(),
                        "launched"
                    );
                    return Ok(state.group(token, now).unwrap_or_default());
                }
                Next::Find => return self.find_group(group).await,
                Next::Again => {}
            }
        }
        Err(templates_gone(&launch))
    }

    /// The instances of a group by their tag. EC2 may describe some of them later: until that time is
    /// over, or there are as many as there can be, these need not be all.
    async fn find_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
        let token = &*group.token;
        let found = self.find_launched(GROUP_TAG, token).await?;
        let now = self.now();
        let mut state = self.state();
        let own = state.launches.entry(token.to_owned()).or_default();
        (own.sent, own.touched) = (None, now);
        let since = *own.reused.get_or_insert(now);
        let settled = found.len() >= group.size || now - since > MAX_DESCRIBE_DELAY_SECONDS;
        let mut known = Group {
            touched: now,
            ..Group::default()
        };
        for facts in found {
            known.made.push((facts.id.clone(), BTreeMap::new()));
            state.seen(facts);
        }
        let answer = state.answer(&known, settled);
        if settled {
            state.keep_group(token, known);
        }
        Ok(answer)
    }
}

impl ProviderState {
    /// What there is of a group, if that is known.
    fn group(&mut self, token: &str, now: i64) -> Option<GroupAnswer> {
        let known = self.groups.get_mut(token)?;
        known.touched = now;
        let known = known.clone();
        Some(self.answer(&known, true))
    }

    fn answer(&self, group: &Group, settled: bool) -> GroupAnswer {
        let living = group.made.iter().filter_map(|(id, annotations)| {
            let facts = self.instances.get(id)?;
            let lives = !facts.is_gone() && !facts.ends();
            lives.then(|| {
                let mut instance = self.instance(facts);
                instance.annotations.extend(annotations.clone());
                instance
            })
        });
        GroupAnswer {
            instances: living.collect(),
            settled,
            short: group.short.clone(),
        }
    }
}
