//! A transport that sees progress in the order in which it arrives.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::flight::Flight;

/// `T`, with progress handed to the open requests as it is read.
///
/// rmcp handles each notification in a task of its own, so that two of them may change places and
/// the last may come after the result.
pub(super) struct Tap<T> {
    inner: T,
    flight: Arc<Flight>,
}

impl<T> Tap<T> {
    pub(super) fn new(inner: T, flight: Arc<Flight>) -> Self {
        Self { inner, flight }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        // Nothing is awaited after the message is there: this future may be dropped at any await.
        let message = self.inner.receive().await;
        if let Some(JsonRpcMessage::Notification(notification)) = &message
            && let ServerNotification::ProgressNotification(progress) = &notification.notification
        {
            self.flight.progress(progress.params.clone());
        }
        message
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
