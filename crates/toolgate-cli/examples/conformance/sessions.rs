//! The sessions of legacy clients, and which of their streams each call has: a tool may then close its own.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use futures_util::{Stream, stream::poll_fn};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{
            ServerSseMessage,
            local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};

/// The library's own sessions. It does not tell a tool which stream its call came on, so this remembers it.
#[derive(Debug)]
pub(crate) struct Sessions {
    local: LocalSessionManager,
    streams: Mutex<HashMap<(String, RequestId), u64>>,
    retry: Duration,
}

impl Sessions {
    pub(crate) fn new(retry: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.sse_retry = Some(retry);
        Self { local, streams: Mutex::default(), retry }
    }

    /// Ends the stream of a call before it is answered. The client comes back for the answer.
    pub(crate) async fn close_stream(&self, session: &str, request: &RequestId) {
        let key = (session.to_owned(), request.clone());
        let Some(stream) = self.streams.lock().unwrap().remove(&key) else { return };
        let handle = self.local.sessions.read().await.get(session).cloned();
        if let Some(handle) = handle {
            let _ = handle.close_sse_stream(stream, Some(self.retry)).await;
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.streams.lock().unwrap().retain(|(session, _), _| session.as_str() != &**id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let handle = self.local.sessions.read().await.get(id).cloned();
        let handle = handle.ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))?;
        let receiver = handle.establish_request_wise_channel().await?;
        if let (JsonRpcMessage::Request(request), Some(stream)) =
            (&message, receiver.http_request_id)
        {
            let key = (id.to_string(), request.id.clone());
            self.streams.lock().unwrap().insert(key, stream);
        }
        handle.push_message(message, receiver.http_request_id).await?;
        let mut messages = receiver.inner;
        Ok(poll_fn(move |context| messages.poll_recv(context)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.resume(id, last_event_id).await
    }
}
