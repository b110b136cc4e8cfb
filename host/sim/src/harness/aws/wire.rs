//! One process's way to AWS: every request passes here.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use longshore_aws::in_process::{Endpoint, Reply, Request};
use serde_json::json;

use super::account::Account;
use super::fleets;
use crate::harness::interceptor::{Call, Interceptor};
use crate::harness::points::Strike;
use crate::harness::safety;

/// What only the leader may do.
const CHANGES: [&str; 14] = [
    "AddRoleToInstanceProfile",
    "CreateFleet",
    "CreateInstanceProfile",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
    "DeleteMessage",
    "DeleteMessageBatch",
    "RebootInstances",
    "RemoveRoleFromInstanceProfile",
    "RunInstances",
    "TagInstanceProfile",
    "TerminateInstances",
];

/// The way.
pub(super) struct Wire {
    pub account: Arc<Account>,
    pub interceptor: Arc<Interceptor>,
    pub client: String,
}

#[async_trait]
impl Endpoint for Wire {
    async fn call(&self, request: Request) -> Option<Reply> {
        let server = &self.interceptor.server;
        if server.is_stopped(&self.client) {
            // A timer of a process that is stopped: the connection is long gone when it goes on.
            server.until_it_goes_on(&self.client).await;
            return None;
        }
        let action = action(&request);
        let what = format!("aws {action}");
        if CHANGES.contains(&&*action) && self.interceptor.lives(&self.client) {
            safety::leads(&self.interceptor, &self.client, &what);
        }
        let fate = self.interceptor.call(&self.client, &what, false);
        let strike = match fate {
            Call::Never => return pending().await,
            Call::Struck(strike) => Some(strike),
            Call::Go | Call::After | Call::During | Call::Fail => None,
        };
        let asked = fleets::read(&request.body, |subnet| self.account.zone_of(subnet));
        let open = asked.as_ref().map(|asked| {
            let now = self.interceptor.clock.elapsed();
            self.account.fleets.begin(&self.client, asked, now)
        });
        let pause = self.account.latency();
        if fate == Call::During {
            let account = self.account.clone();
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                account.send(request).await
            });
            tokio::task::yield_now().await;
            self.interceptor
                .kill(&self.client, &format!(" during {what}"));
            return pending().await;
        }
        tokio::time::sleep(pause).await;
        if let Some(strike) = strike {
            self.strike(strike, &action);
        }
        let reply = self.account.send(request).await;
        tokio::time::sleep(pause).await;
        server.until_it_goes_on(&self.client).await;
        if fate == Call::After {
            self.interceptor
                .kill(&self.client, &format!(" after {what}"));
        }
        if !self.interceptor.lives(&self.client) {
            return pending().await;
        }
        if let (Some(asked), Some(reply)) = (&asked, &reply) {
            let text = String::from_utf8_lossy(&reply.body);
            let zone_of = |subnet: &str| self.account.zone_of(subnet);
            let now = self.interceptor.clock.elapsed();
            let fleets = &self.account.fleets;
            fleets.answered(&self.client, asked, &text, zone_of, now);
        }
        drop(open);
        reply
    }
}

impl Wire {
    /// The next call of this action meets the fault: the one that is sent now.
    fn strike(&self, strike: Strike, action: &str) {
        let on = json!({"action": action, "times": 1});
        let error = |when: &str| {
            let code = "InternalError";
            json!([{"error": {"on": on, "when": when, "code": code, "status": 500}}])
        };
        let drop = |when: &str| json!([{"drop": {"on": on, "when": when}}]);
        self.account.faults(&match strike {
            Strike::RequestLost => drop("before"),
            Strike::ReplyLost => drop("after"),
            Strike::ErrorBefore => error("before"),
            Strike::ErrorAfter => error("after"),
        });
    }
}

/// The action of a request, of whatever protocol.
fn action(request: &Request) -> String {
    let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("x-amz-target");
    if let Some((_, target)) = request.headers.iter().find(named) {
        return target.rsplit('.').next().unwrap_or_default().to_owned();
    }
    let form = form_urlencoded::parse(&request.body);
    let mut actions = form.filter(|(key, _)| key == "Action");
    match actions.next() {
        Some((_, action)) => action.into_owned(),
        // The only service with paths.
        None => "DescribeCluster".to_owned(),
    }
}
