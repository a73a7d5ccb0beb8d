//! Who makes a request: a legacy session, or whoever a request of 2026-07-28 says that it is.

use std::{borrow::Cow, sync::Arc};

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use toolgate::{ClientInfo, ClientInput, Session, Transport};
use toolgate_wire::{
    Json,
    mcp::{Era, MODERN, meta},
};

use super::{client_requests::Elicitor, legacy_session::LegacySession, side_channel::SideChannel};
use crate::{
    capabilities::ClientCapabilities,
    log_level::LogLevel,
    upstream::{
        handshake::own_version,
        server::{SESSIONLESS, SessionKey},
    },
    usage::Member,
};
use crate::{hops::Hops, implementation_info::ourselves};

/// Who makes a request, and how it speaks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Arc<Session>,
    /// The principal in this namespace.
    pub(crate) member: Arc<Member>,
    pub(crate) transport: Transport,
    pub(crate) speaks: CallerProtocol,
    /// The gateways that the request has passed.
    pub(crate) hops: Option<Hops>,
}

/// How a caller speaks.
#[derive(Clone, Debug)]
pub(crate) enum CallerProtocol {
    /// In a session.
    Legacy(Arc<LegacySession>),
    /// With each request for itself.
    Modern(RequestMeta),
}

/// What a request of 2026-07-28 says of its sender.
#[derive(Clone, Debug)]
pub(crate) struct RequestMeta {
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) level: Option<LogLevel>,
}

impl RequestMeta {
    /// The same where the server judges whether something is missing.
    pub(crate) fn lenient(version: &str, meta: Option<&Json>) -> Self {
        let unsaid = || Self {
            version: version.into(),
            capabilities: Json::empty_object(),
            info: meta.and_then(|meta| meta.get(meta::CLIENT_INFO)),
            level: None,
        };
        Self::of(meta).unwrap_or_else(|_| unsaid())
    }

    /// What `_meta` says; the name of the member that is missing otherwise.
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
    /// Tells clients apart by the name and version that they say, as briefly as a key needs it.
    fn client_digest(&self) -> u64 {
        let text = |key| Some(self.info.as_ref()?.get(key)?.text()?.into_owned());
        let said = format!("{:?} {:?}", text("name"), text("version"));
        let digest: [u8; 32] = Sha256::digest(said.as_bytes()).into();
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

    /// The version that it speaks.
    pub(crate) fn version(&self) -> &Arc<str> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => &session.version,
            CallerProtocol::Modern(said) => &said.version,
        }
    }

    /// Whether this request is the only one of its session in flight: what its server asks is about it.
    pub(crate) fn has_one_request(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.requests.count() <= 1,
            CallerProtocol::Modern(_) => true,
        }
    }

    /// What it says that it is.
    pub(crate) fn info(&self) -> Option<Arc<ClientInfo>> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.info.clone(),
            CallerProtocol::Modern(said) => {
                let info = said.info.as_ref()?;
                let text = |key| info.get(key).and_then(|json| json.text().map(Cow::into_owned));
                Some(Arc::new(ClientInfo { name: text("name")?, version: text("version") }))
            }
        }
    }

    /// What it can be asked.
    pub(crate) fn abilities(&self) -> ClientCapabilities {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.abilities,
            CallerProtocol::Modern(said) => ClientCapabilities::of(&said.capabilities),
        }
    }

    /// How layers can ask it something.
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

    /// Whether a log message of a call is of interest.
    pub(crate) fn wants_log(&self, level: LogLevel) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.wants_log(level),
            CallerProtocol::Modern(said) => said.level.is_some_and(|least| level >= least),
        }
    }

    /// Whether log messages are of interest at all.
    pub(crate) fn hears_logs(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(_) => true,
            CallerProtocol::Modern(said) => said.level.is_some(),
        }
    }

    /// Whether it can be asked what is no method of MCP: whoever takes requests answers each, if only with an error.
    /// From 2026-07-28 on a client takes none, and is asked by results; one without capabilities is not.
    pub(crate) fn takes_vendor_requests(&self) -> bool {
        match &self.speaks {
            CallerProtocol::Legacy(_) => true,
            CallerProtocol::Modern(said) => {
                said.capabilities.object().is_some_and(|all| !all.is_empty())
            }
        }
    }

    /// The session that all requests of this client belong to, where it has one.
    pub(crate) fn session_id(&self) -> Option<Arc<str>> {
        match &self.speaks {
            CallerProtocol::Legacy(session) => Some(Arc::clone(&session.session.id)),
            CallerProtocol::Modern(_) => None,
        }
    }

    /// Who opens a connection of its own to a server: a session, or all requests of one principal and client that can be asked
    /// the same.
    pub(crate) fn owner(&self) -> SessionKey {
        match &self.speaks {
            CallerProtocol::Legacy(session) => session.owner(),
            // As many as there are clients by name and ways to be asked, however capabilities are spelt. A connection
            // is no session: clients open several for what they ask at once, and close those that are idle.
            CallerProtocol::Modern(said) => {
                let (session, abilities) = (&self.session, self.abilities());
                let (number, client) = (abilities.number(), said.client_digest());
                let key = format!(
                    "{SESSIONLESS}{} {} {number} {client:016x}",
                    session.namespace, session.principal
                );
                let info = said.info.as_ref().filter(|info| info.object().is_some());
                SessionKey {
                    key: key.into(),
                    capabilities: abilities.capabilities(),
                    info: info.map_or_else(ourselves, Json::owned),
                    version: own_version(),
                    over: CancellationToken::new(),
                    account: Arc::clone(&self.member.account),
                }
            }
        }
    }
}
