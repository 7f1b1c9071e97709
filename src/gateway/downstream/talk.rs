//! What servers say while they work, on its way to the client.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    RequestMetaObject,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::gateway::sessions::ClientSession;
use crate::gateway::upstream::Aside;

/// The client, as one request of it listens.
pub(super) struct Ear {
    pub session: Arc<ClientSession>,
    /// Token under which it wants to hear of progress.
    progress: Option<ProgressToken>,
    /// Least level of messages, as the newer protocol has it.
    level: Option<LoggingLevel>,
    pub cancelled: CancellationToken,
}

impl Ear {
    pub(super) fn new(session: &Arc<ClientSession>, context: &RequestContext<RoleServer>) -> Self {
        Self {
            session: Arc::clone(session),
            progress: context.meta.get_progress_token(),
            level: context.meta.log_level(),
            cancelled: context.ct.clone(),
        }
    }

    pub(super) async fn progress(&self, mut progress: ProgressNotificationParam) {
        if let Some(token) = &self.progress {
            progress.progress_token = token.clone();
            self.session.progress(progress).await;
        }
    }

    pub(super) async fn log(&self, message: LoggingMessageNotificationParam) {
        self.session.log(message, self.level.as_ref()).await;
    }

    /// Does `work` and hands on meanwhile what comes out of `asides`.
    pub(super) async fn listen<T>(
        &self,
        mut asides: UnboundedReceiver<Aside>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        let mut questions = FuturesUnordered::new();
        let result = loop {
            tokio::select! {
                biased;
                Some(aside) = asides.recv() => match aside {
                    Aside::Progress(progress) => self.progress(progress).await,
                    Aside::Log(message) => self.log(message).await,
                    Aside::Ask(question) => questions.push(self.session.answer(*question)),
                },
                Some(()) = questions.next(), if !questions.is_empty() => {}
                result = &mut work => break result,
            }
        };
        self.drain(&mut asides).await;
        result
    }

    /// What was said before a result goes out before the result.
    pub(super) async fn drain(&self, asides: &mut UnboundedReceiver<Aside>) {
        while let Ok(aside) = asides.try_recv() {
            match aside {
                Aside::Progress(progress) => self.progress(progress).await,
                Aside::Log(message) => self.log(message).await,
                Aside::Ask(question) => {
                    let text = "the request was answered already";
                    let _ = question.answer.send(Err(ErrorData::invalid_request(text, None)));
                }
            }
        }
    }
}

/// What a client said beside its request, without what is between it and the gateway.
pub(super) fn forwarded(meta: &RequestMetaObject) -> RequestMetaObject {
    let mut meta = meta.clone();
    meta.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    meta
}
