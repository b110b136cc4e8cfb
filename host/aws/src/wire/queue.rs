//! The interruption queue.

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, MessageSystemAttributeName};

use crate::calls::Call;
use crate::clients::Clients;
use crate::error::ApiError;
use crate::interruption::Message;

/// Most messages of one batch.
const BATCH_MESSAGES: i32 = 10;
/// How long one request waits for messages.
const RECEIVE_WAIT_SECONDS: i32 = 20;
/// How long a received message is hidden from other receivers.
const VISIBILITY_TIMEOUT_SECONDS: i32 = 20;

/// The URL of a queue by name.
///
/// # Errors
/// The call failed, or the answer has no URL.
pub async fn url(clients: &Clients, name: &str) -> Result<String, ApiError> {
    let request = clients.sqs.get_queue_url().queue_name(name);
    let out = clients.send(Call::GetQueueUrl, request.send()).await?;
    let missing = || ApiError::new(Call::GetQueueUrl, "", "the reply has no URL");
    out.queue_url().map(str::to_owned).ok_or_else(missing)
}

/// Waits for messages.
///
/// # Errors
/// The call failed.
pub async fn receive(clients: &Clients, url: &str) -> Result<Vec<Message>, ApiError> {
    let request = clients.sqs.receive_message().queue_url(url);
    let request = request
        .max_number_of_messages(BATCH_MESSAGES)
        .wait_time_seconds(RECEIVE_WAIT_SECONDS);
    let request = request.visibility_timeout(VISIBILITY_TIMEOUT_SECONDS);
    let sent = MessageSystemAttributeName::SentTimestamp;
    let request = request.message_system_attribute_names(sent.clone());
    let out = clients.send(Call::ReceiveMessage, request.send()).await?;
    let message = |one: &aws_sdk_sqs::types::Message| Message {
        receipt: one.receipt_handle().unwrap_or_default().to_owned(),
        body: one.body().unwrap_or_default().to_owned(),
        sent: one
            .attributes()
            .and_then(|all| all.get(&sent)?.parse().ok()),
    };
    Ok(out.messages().iter().map(message).collect())
}

/// Deletes at most ten messages. What became of each, in their order.
///
/// # Errors
/// The call failed: any of them may come again.
pub async fn delete(
    clients: &Clients,
    url: &str,
    receipts: &[&str],
) -> Result<Vec<Result<(), ApiError>>, ApiError> {
    let call = Call::DeleteMessageBatch;
    let request = clients.sqs.delete_message_batch().queue_url(url);
    let entry = |(at, receipt): (usize, &&str)| {
        let entry = DeleteMessageBatchRequestEntry::builder();
        entry.id(at.to_string()).receipt_handle(*receipt).build()
    };
    let entries: Result<Vec<_>, _> = receipts.iter().enumerate().map(entry).collect();
    let entries = entries.map_err(|why| ApiError::new(call, "", &why.to_string()))?;
    let request = request.set_entries(Some(entries));
    let out = clients
        .send(Call::DeleteMessageBatch, request.send())
        .await?;
    let mut each = vec![Ok(()); receipts.len()];
    for failed in out.failed() {
        let own = failed.id().parse().ok();
        if let Some(own) = own.and_then(|at: usize| each.get_mut(at)) {
            let message = failed.message().unwrap_or_default();
            *own = Err(ApiError::new(call, failed.code(), message));
        }
    }
    Ok(each)
}
