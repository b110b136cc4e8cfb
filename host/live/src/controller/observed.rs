//! Folds observations of watches and answers of own writes into the state, and enqueues the objects
//! that they touch.

use tokio::time::Instant;

use super::Controller;
use crate::observe::freshness::OwnWrite;
use crate::observe::protection;
use crate::observe::state::WorkItem;
use crate::observe::watch::{Change, Observed};
use crate::process::mutants::mutant;
use longshore_api::kinds::ObjectKind;
use longshore_api::strip_managed_fields::full_name;

impl Controller {
    /// Takes in what a watch has brought.
    pub(super) fn observe(&mut self, observed: Observed) {
        let Observed {
            kind,
            change,
            version,
        } = observed;
        let now = Instant::now();
        self.publishing.note_change();
        // A reopened watch has brought nothing yet.
        if !matches!(change, Change::Failed(_) | Change::Recovered) {
            self.watches.heard(kind, now);
            self.ctx.clock.answered();
        }
        match &change {
            Change::Version => {
                if let Some(version) = version {
                    self.watches.reached(kind, version);
                }
                return;
            }
            Change::Begin => self.watches.list_begins(kind, now),
            Change::End => {
                // No list can have objects that were written after it; these exist all the same.
                for object in self.watches.unseen(kind) {
                    self.fold(kind, Change::Upsert(object));
                }
                self.watches.listed(kind);
            }
            Change::Upsert(json) | Change::Remove(json) => {
                if let Some(version) = version
                    && self.watches.brought(kind, version)
                    && let Some(name) = full_name(json)
                    && self.watches.is_older_than_own(kind, &name, version)
                {
                    self.state.lists.note_seen(kind, &name);
                    return;
                }
            }
            _ => {}
        }
        if let (ObjectKind::Pod, Change::Upsert(pod)) = (kind, &change) {
            self.report_protection(pod);
        }
        self.fold(kind, change);
    }

    /// Says of a pod that its annotation protects it from nothing, or until when it does.
    fn report_protection(&self, pod: &str) {
        if !self.was_leader {
            return;
        }
        let now = self.ctx.now().as_second();
        if let Some(event) = protection::event_for(pod, now) {
            self.emit_pod_event(event);
        }
    }

    /// Writes an Event about the annotation of a pod, unless the same was written a moment ago.
    pub(super) fn emit_pod_event(&self, event: protection::ProtectionEvent) {
        let pod = (&*event.pod, &*event.uid);
        if !self.ctx.events.is_due(pod, event.reason, &event.message) {
            return;
        }
        let ctx = self.ctx.clone();
        tokio::spawn(async move {
            let pod = (&*event.pod, &*event.uid);
            let is_warning = event.reason == protection::INVALID;
            ctx.events
                .pod_with_uid(pod, is_warning, event.reason, &event.message)
                .await;
        });
    }

    /// Takes in what this process has written, before the watch brings it.
    pub(super) fn wrote(&mut self, write: OwnWrite) {
        if write.kind == ObjectKind::Pod {
            // The only write to a pod that is reported here.
            self.rollout.nomination_written(&write.name, Instant::now());
        }
        if mutant("ignores-awaited") || !self.watches.wrote(&write, Instant::now()) {
            return;
        }
        if let OwnWrite {
            kind,
            object: Some(object),
            ..
        } = write
        {
            self.publishing.note_change();
            self.fold(kind, Change::Upsert(object));
        }
    }

    /// Remembers NodeClaims that have gone, and what is bought with and is another one.
    fn note_recent(&mut self) {
        let (recent, now) = (&self.ctx.memory.recent, self.ctx.now());
        for claim in self.state.changes.claims_gone() {
            recent.gone(&claim, now);
        }
        for change in self.state.changes.specs() {
            let subject = format!("{} {}", change.kind.at().kind, change.name);
            recent.changed(now, &subject, &change.text());
        }
    }

    fn fold(&mut self, kind: ObjectKind, change: Change) {
        match (&change, self.state.lists.trouble(kind)) {
            // Said once, however often it is tried.
            (Change::Failed(why), last) if last != Some(why) => {
                tracing::warn!(?kind, why, "watch failed; retrying");
            }
            (Change::End | Change::Recovered, Some(_)) => tracing::info!(?kind, "watch recovered"),
            _ => {}
        }
        let (touched, refused) = self.state.fold(kind, &change);
        self.note_recent();
        if kind == ObjectKind::CsiNode && !self.follows_drivers && self.state.has_csi_drivers() {
            self.follows_drivers = true;
            ObjectKind::OF_DRIVERS
                .iter()
                .for_each(|kind| self.ctx.relists.ask(*kind));
        }
        let source = &*self.config.catalogue;
        if source.follows(kind) {
            self.offers.current.tell(source, kind, &change, &self.state);
        }
        for node in self.ctx.memory.end.drains.observe(kind, &change) {
            self.enqueue(WorkItem::Node(node), Instant::now());
        }
        let time = self.ctx.now().as_millisecond();
        let is_refused = refused.as_ref().is_some_and(|refused| !refused.is_kept);
        if let Some(what) = change.recorded() {
            let journal = &self.config.journal;
            journal.observed(time, self.state.revision, kind, what, is_refused);
        }
        match refused {
            Some(refused) if kind == ObjectKind::Pod => tracing::warn!(
                name = refused.name,
                why = refused.why,
                "pod, or a part of it, cannot be read; a pod that cannot holds its node"
            ),
            Some(refused) if refused.is_kept => tracing::warn!(
                ?kind,
                name = refused.name,
                why = refused.why,
                "field cannot be read; the default counts"
            ),
            Some(refused) if kind == ObjectKind::NodeOverlay => tracing::warn!(
                name = refused.name,
                why = refused.why,
                "NodeOverlay cannot be read; it does not count"
            ),
            Some(refused) if kind == ObjectKind::NodePool => tracing::warn!(
                name = refused.name,
                why = refused.why,
                "NodePool cannot be read; nothing is bought with it"
            ),
            Some(refused) => tracing::warn!(
                ?kind,
                name = refused.name,
                why = refused.why,
                "object cannot be read; the last version stays"
            ),
            None => {}
        }
        let reached = self.state.pods.transitions();
        let turned = self.state.changes.conditions();
        if self.was_leader {
            turned
                .iter()
                .for_each(|(old, new)| self.ctx.metrics.node_transition(old.as_ref(), new));
            for milestone in &reached {
                let placed =
                    self.pod_latency
                        .reached(&milestone.pod, milestone.what, self.ctx.now());
                self.ctx.metrics.reached(milestone, self.ctx.now(), placed);
            }
        }
        let now = Instant::now();
        for what in touched {
            match what {
                WorkItem::Pending => self.round_timer.pod_arrived(now),
                WorkItem::PodEvent(node) => self.pod_event(node, now),
                what => self.enqueue(what, now),
            }
        }
    }
}
