//! What policies say of themselves: in the log, in metrics and as Events.

use std::time::{Duration, Instant};

use longshore_journal::Journal;
use longshore_policy::Level;
use tokio::runtime::Handle;

use super::questions::Questions;
use crate::policies::{EventQuota, PolicyReloader};
use crate::process::log::LogQueue;

/// Passes on what the policies have to say, once a second, for ever.
pub fn pass_on(
    runtime: &Handle,
    questions: &Questions,
    reloader: &PolicyReloader,
    journal: &Journal,
    log: &LogQueue,
) {
    let ctx = &questions.ctx;
    let mut quota = EventQuota::default();
    loop {
        for notice in questions.note_policies(reloader) {
            let kind = format!("{:?}", notice.kind);
            ctx.metrics
                .policies
                .with_label_values(&[&kind, &notice.name])
                .inc();
            let words = format!("{}: {} {}", notice.name, notice.message, notice.hint);
            let warning = notice.kind.is_warning() || notice.level == Some(Level::Error);
            if let Some(level) = notice.level {
                said(level, &notice.name, &notice.message);
            } else if warning {
                tracing::warn!(
                    kind,
                    policy = notice.name,
                    message = notice.message,
                    hint = notice.hint,
                    "policy"
                );
            } else {
                tracing::info!(
                    kind,
                    policy = notice.name,
                    message = notice.message,
                    "policy"
                );
            }
            if ctx.leadership.is_leader() && quota.is_due(&notice, Instant::now()) {
                runtime.block_on(ctx.events.own(warning, &kind, words.trim()));
            }
        }
        ctx.metrics.journal(journal.condition());
        ctx.metrics.log_lines_dropped(log.dropped());
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What a policy said, as loud as it did.
fn said(level: Level, policy: &str, message: &str) {
    match level {
        Level::Error => tracing::error!(kind = "PolicySaid", policy, message, "policy"),
        Level::Warn => tracing::warn!(kind = "PolicySaid", policy, message, "policy"),
        Level::Info => tracing::info!(kind = "PolicySaid", policy, message, "policy"),
        Level::Debug => tracing::debug!(kind = "PolicySaid", policy, message, "policy"),
    }
}
