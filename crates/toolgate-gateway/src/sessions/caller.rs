//! Who makes a request: a session of old, or whoever a request of 2026-07-28 says that it is.

use std::{borrow::Cow, sync::Arc};

use tokio_util::sync::CancellationToken;
use toolgate::{Asking, ClientInfo, Session, Transport};
use toolgate_wire::{Json, era};

use super::{
    abilities::Abilities, legacy::LegacySession, level::Level, questions::Asker, side::Side,
    usage::Member,
};
use crate::hops::Hops;
use crate::outbound::{
    connection::{Era, MODERN, ourselves},
    handshake::own_version,
    server::{Owner, SESSIONLESS},
};

/// Who makes a request, and how it speaks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Arc<Session>,
    /// The principal in this namespace.
    pub(crate) member: Arc<Member>,
    pub(crate) transport: Transport,
    pub(crate) speaks: Speaks,
    /// The gateways that the request has passed.
    pub(crate) hops: Option<Hops>,
}

/// How a caller speaks.
#[derive(Clone, Debug)]
pub(crate) enum Speaks {
    /// In a session.
    Legacy(Arc<LegacySession>),
    /// With each request for itself.
    Modern(Said),
}

/// What a request of 2026-07-28 says of its sender.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) level: Option<Level>,
}

impl Said {
    /// What `_meta` says; the name of the member that is missing otherwise.
    pub(crate) fn of(meta: Option<&Json>) -> Result<Self, &'static str> {
        let version = meta.and_then(|meta| meta.get(era::META_PROTOCOL_VERSION));
        let version = version.as_ref().and_then(Json::text).ok_or(era::META_PROTOCOL_VERSION)?;
        let version: Arc<str> =
            if version == MODERN { MODERN.into() } else { version.as_ref().into() };
        let capabilities = meta.and_then(|meta| meta.get(era::META_CLIENT_CAPABILITIES));
        let capabilities = capabilities.filter(|json| json.object().is_some());
        let level = meta.and_then(|meta| meta.get(era::META_LOG_LEVEL));
        Ok(Self {
            version,
            capabilities: capabilities.ok_or(era::META_CLIENT_CAPABILITIES)?,
            info: meta.and_then(|meta| meta.get(era::META_CLIENT_INFO)),
            level: level.as_ref().and_then(Json::text).and_then(|name| Level::by_name(&name)),
        })
    }
}

impl Caller {
    pub(crate) fn era(&self) -> Era {
        match self.speaks {
            Speaks::Legacy(_) => Era::Legacy,
            Speaks::Modern(_) => Era::Modern,
        }
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.era() == Era::Modern
    }

    /// The version that it speaks.
    pub(crate) fn version(&self) -> &Arc<str> {
        match &self.speaks {
            Speaks::Legacy(session) => &session.version,
            Speaks::Modern(said) => &said.version,
        }
    }

    /// What it says that it is.
    pub(crate) fn info(&self) -> Option<Arc<ClientInfo>> {
        match &self.speaks {
            Speaks::Legacy(session) => session.info.clone(),
            Speaks::Modern(said) => {
                let info = said.info.as_ref()?;
                let text = |key| info.get(key).and_then(|json| json.text().map(Cow::into_owned));
                Some(Arc::new(ClientInfo { name: text("name")?, version: text("version") }))
            }
        }
    }

    /// What it can be asked.
    pub(crate) fn abilities(&self) -> Abilities {
        match &self.speaks {
            Speaks::Legacy(session) => session.abilities,
            Speaks::Modern(said) => Abilities::of(&said.capabilities),
        }
    }

    /// How layers can ask it something.
    pub(crate) fn asking(&self, side: &Side) -> Asking {
        if !self.abilities().has(Abilities::FORMS) {
            return Asking::Nobody;
        }
        match &self.speaks {
            Speaks::Legacy(session) => {
                Asking::Elicit(Arc::new(Asker { session: Arc::clone(session), side: side.clone() }))
            }
            Speaks::Modern(_) => Asking::Rounds,
        }
    }

    /// Whether a log message of a call is of interest.
    pub(crate) fn wants_log(&self, level: Level) -> bool {
        match &self.speaks {
            Speaks::Legacy(session) => session.wants_log(level),
            Speaks::Modern(said) => said.level.is_some_and(|least| level >= least),
        }
    }

    /// Whether log messages are of interest at all.
    pub(crate) fn hears_logs(&self) -> bool {
        match &self.speaks {
            Speaks::Legacy(_) => true,
            Speaks::Modern(said) => said.level.is_some(),
        }
    }

    /// Who opens a connection of its own to a server: a session, or all requests of one principal that can be asked
    /// the same.
    pub(crate) fn owner(&self) -> Owner {
        match &self.speaks {
            Speaks::Legacy(session) => session.owner(),
            // As many as there are ways to be asked, however capabilities are spelt.
            Speaks::Modern(_) => {
                let (session, abilities) = (&self.session, self.abilities());
                let number = abilities.number();
                let key =
                    format!("{SESSIONLESS}{} {} {number}", session.namespace, session.principal);
                Owner {
                    key: key.into(),
                    capabilities: abilities.capabilities(),
                    info: ourselves(),
                    version: own_version(),
                    over: CancellationToken::new(),
                    account: Arc::clone(&self.member.account),
                }
            }
        }
    }
}
