//! The caller of a request: a legacy session, or the client that a request of 2026-07-28 describes in `_meta`.

use std::{borrow::Cow, sync::Arc};

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use toolgate::{ClientInfo, ClientInput, Session, Transport};
use toolgate_wire::{
    Json,
    mcp::{Era, MODERN, meta},
};

use super::{elicitor::Elicitor, legacy_session::LegacySession, side_channel::SideChannel};
use crate::{
    capabilities::ClientCapabilities,
    log_level::LogLevel,
    upstream::{
        handshake::own_version,
        server::{ConnectionOwner, OwnerKey},
    },
    usage::PrincipalInNamespace,
};
use crate::{hops::Hops, implementation_info::ourselves};

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Arc<Session>,
    /// The principal in this namespace.
    pub(crate) principal: Arc<PrincipalInNamespace>,
    pub(crate) transport: Transport,
    pub(crate) speaks: CallerProtocol,
    /// The gateways that the request has passed.
    pub(crate) hops: Option<Hops>,
}

/// The protocol of a caller, with the state that belongs to it.
#[derive(Clone, Debug)]
pub(crate) enum CallerProtocol {
    /// 2025-11-25 and earlier: a session.
    Legacy(Arc<LegacySession>),
    /// 2026-07-28: each request describes its client.
    Modern(RequestMeta),
}

/// The description of the client in `_meta` of a request of 2026-07-28.
#[derive(Clone, Debug)]
pub(crate) struct RequestMeta {
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) level: Option<LogLevel>,
}

impl RequestMeta {
    /// Reads `_meta` for a server that checks it itself: missing members are not an error.
    pub(crate) fn lenient(version: &str, meta: Option<&Json>) -> Self {
        let unsaid = || Self {
            version: version.into(),
            capabilities: Json::empty_object(),
            info: meta.and_then(|meta| meta.get(meta::CLIENT_INFO)),
            level: None,
        };
        Self::of(meta).unwrap_or_else(|_| unsaid())
    }

    /// Reads `_meta`. The error is the name of the missing member.
    pub(crate) fn of(meta: Option<&Json>) -> Result<Self, &'static str> {
        let version = meta.and_then(|meta| meta.get(meta::PROTOCOL_VERSION));
        let version = version.as_ref().and_then(Json::text).ok_or(meta::PROTOCOL_VERSION)?;
        let version: Arc<str> =
            if version == MODERN { MODERN.into() } else { version.as_ref().into() };
        let capabilities = meta.and_then(|meta| meta.get(meta::CLIENT_CAPABILITIES));
        let capabilities = capabilities.filter(|json| json.object().is_some());
        let level = meta.and_then(|meta| meta.get(meta::LOG_LEVEL));
        Ok(Self {
            version,
            capabilities: capabilities.ok_or(meta::CLIENT_CAPABILITIES)?,
            info: meta.and_then(|meta| meta.get(meta::CLIENT_INFO)),
            level: level.as_ref().and_then(Json::text).and_then(|name| LogLevel::by_name(&name)),
        })
    }
}

impl RequestMeta {
    /// A short digest of the client's name and version, to distinguish clients.
    fn client_digest(&self) -> u64 {
        let text = |key| Some(self.info.as_ref()?.get(key)?.text()?.into_owned());
        let client = format!("{:?} {:?}", text("name"), text("version"));
        let digest: [u8; 32] = Sha256::digest(client.as_bytes()).into();
        digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

impl Caller {
    pub(crate) fn era(&self) -> Era {
        match self.speaks {
            CallerProtocol::Legacy(_) => Era::Legacy,
            CallerProtocol::Modern(_) => Era::Modern,
        }
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.era() == Era::Modern
    }

    /// The protocol version of the request.
    pub(crate) fn version(&self) -> &Arc<str> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => &session.version,
            CallerProtocol::Modern(meta) => &meta.version,
        }
    }

    /// Whether this request is the only one of its session in flight, so that a request of the server must belong to it.
    pub(crate) fn has_one_request(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.requests.count() <= 1,
            CallerProtocol::Modern(_) => true,
        }
    }

    /// The client's name and version.
    pub(crate) fn info(&self) -> Option<Arc<ClientInfo>> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.info.clone(),
            CallerProtocol::Modern(meta) => {
                let info = meta.info.as_ref()?;
                let text = |key| info.get(key).and_then(|json| json.text().map(Cow::into_owned));
                Some(Arc::new(ClientInfo { name: text("name")?, version: text("version") }))
            }
        }
    }

    /// The servers' questions that the client can answer.
    pub(crate) fn abilities(&self) -> ClientCapabilities {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.abilities,
            CallerProtocol::Modern(meta) => ClientCapabilities::of(&meta.capabilities),
        }
    }

    /// How layers can ask the user.
    pub(crate) fn asking(&self, side: &SideChannel) -> ClientInput {
        if !self.abilities().has(ClientCapabilities::FORMS) {
            return ClientInput::Unavailable;
        }
        match &self.speaks {
            CallerProtocol::Legacy(session) => ClientInput::ViaElicitation(Arc::new(Elicitor {
                session: Arc::clone(session),
                side: side.clone(),
            })),
            CallerProtocol::Modern(_) => ClientInput::ViaResult,
        }
    }

    /// Whether the client wants log messages of this level.
    pub(crate) fn wants_log(&self, level: LogLevel) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.wants_log(level),
            CallerProtocol::Modern(meta) => meta.level.is_some_and(|least| level >= least),
        }
    }

    /// Whether the client wants log messages at all.
    pub(crate) fn hears_logs(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(_) => true,
            CallerProtocol::Modern(meta) => meta.level.is_some(),
        }
    }

    /// Whether the client can get requests with vendor methods. A legacy client answers any request, if only with an error.
    /// A client of 2026-07-28 gets them as results, if it declares any capability.
    pub(crate) fn takes_vendor_requests(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(_) => true,
            CallerProtocol::Modern(meta) => {
                meta.capabilities.object().is_some_and(|all| !all.is_empty())
            }
        }
    }

    /// The id of the client's session, if it has one.
    pub(crate) fn session_id(&self) -> Option<Arc<str>> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => Some(Arc::clone(&session.session.id)),
            CallerProtocol::Modern(_) => None,
        }
    }

    /// The owner of connections to servers whose sharing is `session`: one for each legacy session; for 2026-07-28, one for all requests of the
    /// same principal, client and capabilities.
    pub(crate) fn owner(&self) -> ConnectionOwner {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.owner(),
            // The key does not depend on the HTTP connection, because clients open several connections and close idle
            // ones, nor on how the client spells its capabilities.
            CallerProtocol::Modern(meta) => {
                let (session, abilities) = (&self.session, self.abilities());
                let (number, client) = (abilities.number(), meta.client_digest());
                let (namespace, principal) = (&session.namespace, &session.principal);
                let clients = format!("{namespace} {principal} {number} {client:016x}").into();
                let info = meta.info.as_ref().filter(|info| info.object().is_some());
                ConnectionOwner {
                    key: OwnerKey::Sessionless { clients, lease: 0 },
                    capabilities: abilities.capabilities(),
                    info: info.map_or_else(ourselves, Json::owned),
                    version: own_version(),
                    over: CancellationToken::new(),
                    account: Arc::clone(&self.principal.account),
                }
            }
        }
    }
}
