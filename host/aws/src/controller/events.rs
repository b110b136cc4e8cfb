//! What Events say of an EC2NodeClass whose conditions change.
//!
//! A part that turns false has an Event with the part's reason and message, and so has one whose
//! reason changes while it is false. Ready repeats its parts, so it has an Event only when it turns
//! true again.

use longshore_api::crd::{Condition, ConditionStatus, condition};

use crate::error::ApiError;
use crate::nodeclass::{GROUPS, IMAGES, ImageFault, Observed, PLACEMENT, PROFILE, Part};
use crate::nodeclass::{ProfileFault, RESERVATIONS, SUBNETS};
use crate::store::ClassEvent;

const READY: &str = "Ready";
/// The reason of a part that is false because others are.
const FOLLOWS: &str = "DependenciesNotReady";

/// Conditions that have another status than before, each with what it was.
pub fn transitions<'a>(
    before: &'a [Condition],
    after: &'a [Condition],
) -> impl Iterator<Item = (Option<&'a Condition>, &'a Condition)> {
    let both = after.iter().map(|new| (condition(before, &new.type_), new));
    both.filter(|(old, new)| old.map(|old| old.status) != Some(new.status))
}

/// What is said of a change.
pub fn events(before: &[Condition], after: &[Condition]) -> Vec<ClassEvent> {
    let is_new = |new: &&Condition| match condition(before, &new.type_) {
        Some(old) => (old.status, &old.reason) != (new.status, &new.reason),
        None => true,
    };
    let mut all: Vec<ClassEvent> = after
        .iter()
        .filter(|new| new.status == ConditionStatus::False && new.type_ != READY)
        .filter(|new| new.reason != FOLLOWS)
        .filter(is_new)
        .map(|new| ClassEvent {
            warning: true,
            reason: new.reason.clone(),
            message: format!("{}: {}", new.type_, new.message),
        })
        .collect();
    let was = condition(before, READY).map(|own| own.status);
    let is = condition(after, READY).map(|own| own.status);
    if was == Some(ConditionStatus::False) && is == Some(ConditionStatus::True) {
        all.push(ClassEvent {
            warning: false,
            reason: READY.to_owned(),
            message: "nodes can be launched again".to_owned(),
        });
    }
    all
}

/// What is said of parts that could not be observed and stay as they were, for a condition that is
/// true says nothing.
pub fn troubles(observed: &Observed, failed: &[Part], after: &[Condition]) -> Vec<ClassEvent> {
    let stays = |type_: &str| {
        condition(after, type_).is_some_and(|own| own.status == ConditionStatus::True)
    };
    failed
        .iter()
        .filter_map(|part| error_of(observed, *part))
        .filter(|(type_, _)| stays(type_))
        .map(|(type_, error)| ClassEvent {
            warning: true,
            reason: "RequestFailed".to_owned(),
            message: format!("{type_} stays as it was: {}", error.lasting()),
        })
        .collect()
}

/// The condition of a part, and the call that failed.
fn error_of(observed: &Observed, part: Part) -> Option<(&'static str, &ApiError)> {
    fn failed<T>(of: &Option<Result<T, ApiError>>) -> Option<&ApiError> {
        of.as_ref()?.as_ref().err()
    }
    let (type_, error) = match part {
        Part::Images => {
            let error = match &observed.images {
                Some(Err(ImageFault::Api(error))) => Some(error),
                _ => None,
            };
            (IMAGES, error)
        }
        Part::Reservations => (RESERVATIONS, failed(&observed.reservations)),
        Part::Placement => (PLACEMENT, failed(&observed.placement)),
        Part::Subnets => (SUBNETS, failed(&observed.subnets)),
        Part::Groups => (GROUPS, failed(&observed.groups)),
        Part::Profile => {
            let error = match &observed.profile {
                Some(Err(ProfileFault::Api(error))) => Some(error),
                _ => None,
            };
            (PROFILE, error)
        }
        Part::Validation => return None,
    };
    Some((type_, error?))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use longshore_api::crd::{Time, Timestamp};

    use super::*;

    fn conditions(all: &[(&str, ConditionStatus, &str, &str)]) -> Vec<Condition> {
        let mut made = Vec::new();
        for (type_, status, reason, message) in all {
            let now = Time(Timestamp::default());
            longshore_api::crd::set_condition(&mut made, type_, *status, reason, message, now);
        }
        made
    }

    fn said(before: &[Condition], after: &[Condition]) -> String {
        let all = events(before, after);
        let line = |event: &ClassEvent| {
            let kind = ["Normal", "Warning"][usize::from(event.warning)];
            format!("{kind} {}: {}\n", event.reason, event.message)
        };
        all.iter().map(line).collect()
    }

    #[test]
    fn what_turns_false_is_said_once_and_so_is_the_way_back() {
        use ConditionStatus::{False, True, Unknown};
        let good = conditions(&[
            ("SubnetsReady", True, "SubnetsReady", ""),
            ("ValidationSucceeded", True, "ValidationSucceeded", ""),
            ("Ready", True, "Ready", ""),
        ]);
        let missing = conditions(&[
            ("SubnetsReady", False, "SubnetsNotFound", "none; see tags"),
            ("ValidationSucceeded", False, FOLLOWS, "SubnetsReady"),
            ("Ready", False, "UnhealthyDependents", "SubnetsReady"),
        ]);
        let denied = conditions(&[
            (
                "SubnetsReady",
                False,
                "Unauthorized",
                "allow ec2:DescribeSubnets",
            ),
            ("Ready", False, "UnhealthyDependents", "SubnetsReady"),
        ]);
        let unknown = conditions(&[("SubnetsReady", Unknown, "AwaitingReconciliation", "")]);
        expect![[r#"
            Warning SubnetsNotFound: SubnetsReady: none; see tags
        "#]]
        .assert_eq(&said(&good, &missing));
        assert_eq!(said(&unknown, &missing), said(&good, &missing));
        assert_eq!(said(&missing, &missing), "");
        expect![[r#"
            Warning Unauthorized: SubnetsReady: allow ec2:DescribeSubnets
        "#]]
        .assert_eq(&said(&missing, &denied));
        expect![[r#"
            Normal Ready: nodes can be launched again
        "#]]
        .assert_eq(&said(&denied, &good));
        assert_eq!(transitions(&good, &missing).count(), 3);
        assert_eq!(transitions(&missing, &denied).count(), 0);
        assert_eq!(
            said(&[], &good),
            "",
            "a class that is ready at first has no news"
        );
    }
}
