//! Counts what the provider says, and writes its Events.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use longshore_api::crd::Condition;
use longshore_aws::calls::Call;
use longshore_aws::error::Class;
use longshore_aws::observer::{Called, Observer};
use longshore_aws::store::{ClaimFacts, ClassEvent, KubeClasses, NodeClasses};
use longshore_ec2::nodeclass::{EC2NodeClass, EC2NodeClassStatus};

use crate::act::context::Context;
use crate::metrics::ec2::{self, Ec2Metrics};

pub struct Counting(pub Arc<Ec2Metrics>);

impl Observer for Counting {
    fn called(&self, call: Call, how: Called) {
        self.0.called(&ec2::Call {
            service: call.service().prefix(),
            action: call.name(),
            outcome: how.error.map_or("ok", Class::as_str),
            attempts: how.attempts,
            waited: how.waited,
            took: how.took,
        });
    }

    fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &str) {
        self.0.launch_failed(zone, zone_id, capacity_type, reason);
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        self.0.termination_failed(zone, zone_id);
    }

    fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        self.0.batched(batcher, size, waited);
    }

    fn condition_changed(&self, old: Option<&Condition>, new: &Condition) {
        self.0.class_transition(old, new);
    }

    fn class_ended(&self, after: Duration) {
        self.0.class_ended(after);
    }

    fn user_data(&self, nodeclass: &str, bytes: usize) {
        self.0.user_data(nodeclass, bytes);
    }

    fn received(&self, what: &'static str) {
        self.0.received(what);
    }

    fn message_done(&self, after: Duration) {
        self.0.message_done(after);
    }

    fn deleted(&self) {
        self.0.deleted();
    }

    fn message_failed(&self) {
        self.0.message_failed();
    }
}

/// EC2NodeClasses of the API server, with Events once the daemon is there that writes them.
pub struct ClassesWithEvents {
    classes: Arc<KubeClasses>,
    /// Its provider has these classes: it must not be kept alive by them.
    ctx: OnceLock<Weak<Context>>,
}

impl ClassesWithEvents {
    pub fn new(classes: Arc<KubeClasses>) -> Self {
        ClassesWithEvents {
            classes,
            ctx: OnceLock::new(),
        }
    }

    /// Events are written by this daemon from now on.
    pub fn write_events_with(&self, ctx: &Arc<Context>) {
        // There is one daemon in a process.
        let _ = self.ctx.set(Arc::downgrade(ctx));
    }
}

#[async_trait]
impl NodeClasses for ClassesWithEvents {
    async fn get(&self, name: &str) -> Result<Option<EC2NodeClass>, String> {
        self.classes.get(name).await
    }

    async fn list(&self) -> Result<Vec<EC2NodeClass>, String> {
        self.classes.list().await
    }

    async fn claims_of(&self, name: &str) -> Result<Vec<ClaimFacts>, String> {
        self.classes.claims_of(name).await
    }

    async fn annotate_claim(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        self.classes.annotate_claim(name, annotations).await
    }

    async fn write_status(
        &self,
        class: &EC2NodeClass,
        status: &EC2NodeClassStatus,
    ) -> Result<(), String> {
        self.classes.write_status(class, status).await
    }

    async fn write_metadata(
        &self,
        class: &EC2NodeClass,
        finalizers: &[String],
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let classes = &self.classes;
        classes.write_metadata(class, finalizers, annotations).await
    }

    async fn say(&self, class: &EC2NodeClass, event: ClassEvent) {
        let Some(ctx) = self.ctx.get().and_then(Weak::upgrade) else {
            return;
        };
        let meta = &class.metadata;
        let ClassEvent {
            warning,
            reason,
            message,
        } = event;
        ctx.events.ec2_class(meta, warning, &reason, &message).await;
    }
}
