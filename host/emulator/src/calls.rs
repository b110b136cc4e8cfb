//! The log of calls.

use serde::Serialize;

use crate::time::Time;

/// Calls that are kept.
const MAX_CALLS: usize = 100_000;
/// Characters of a request, and of a reply, that are kept.
const MAX_TEXT_CHARS: usize = 32 * 1024;

/// One call and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Logged {
    /// Counts from 1.
    pub number: u64,
    /// When it came.
    pub at: String,
    pub service: &'static str,
    /// The action; empty if the request named none.
    pub action: String,
    /// Parameters: the form or JSON of the body.
    pub request: String,
    /// The status of the reply; `None` while a long poll waits, and for a dropped reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The body of the reply, with the setting `logReplies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The code of the error that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a fault did to the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The reply's request id.
    pub request_id: String,
}

/// The log.
#[derive(Debug, Default)]
pub struct Calls {
    kept: std::collections::VecDeque<Logged>,
    count: u64,
}

impl Calls {
    /// Adds a call and returns its number.
    pub fn add(
        &mut self,
        now: Time,
        service: &'static str,
        action: &str,
        request: &str,
        request_id: &str,
    ) -> u64 {
        self.count += 1;
        if self.kept.len() == MAX_CALLS {
            self.kept.pop_front();
        }
        self.kept.push_back(Logged {
            number: self.count,
            at: now.iso(),
            service,
            action: action.to_owned(),
            request: beginning(request),
            status: None,
            reply: None,
            error: None,
            faults: Vec::new(),
            request_id: request_id.to_owned(),
        });
        self.count
    }

    /// Changes a call that is still kept.
    pub fn change(&mut self, number: u64, change: impl FnOnce(&mut Logged)) {
        let behind = (self.count - number) as usize;
        let at = self.kept.len().checked_sub(behind + 1);
        if let Some(logged) = at.and_then(|at| self.kept.get_mut(at)) {
            change(logged);
        }
    }

    /// Kept calls after a number, oldest first.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Logged> {
        self.kept
            .iter()
            .filter(move |logged| logged.number > number)
    }
}

/// What is kept of a text.
pub fn beginning(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_calls_are_forgotten_and_the_others_can_be_changed() {
        let mut calls = Calls::default();
        for _ in 0..MAX_CALLS + 2 {
            calls.add(Time(0), "ec2", "A", "", "");
        }
        calls.change(1, |logged| logged.status = Some(1));
        calls.change(MAX_CALLS as u64 + 2, |logged| logged.status = Some(2));
        let kept: Vec<_> = calls.after(0).collect();
        assert_eq!((kept.len(), kept[0].number), (MAX_CALLS, 3));
        assert_eq!(kept[MAX_CALLS - 1].status, Some(2));
        assert!(
            kept[..MAX_CALLS - 1]
                .iter()
                .all(|logged| logged.status.is_none())
        );
        assert_eq!(calls.after(MAX_CALLS as u64 + 1).count(), 1);
    }
}
