//! The signals that a gateway takes while it runs.

use tokio::signal::unix::{Signal, SignalKind, signal};
use toolgate_gateway::{config::Trigger, gateway::RunningGateway};

/// Signals, taken from the moment of construction on.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// `toolgate reload`
    reload: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reload: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the signal that ends the program, and gives its number. Cancel safe.
    pub(crate) async fn end(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }

    /// The same; until then a request to read the config again is answered with this text, for there is none.
    pub(crate) async fn end_without_config(&mut self, told: &str) -> u8 {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return 15,
                _ = self.interrupt.recv() => return 2,
                _ = self.hangup.recv() => tracing::info!("{told}"),
                _ = self.reload.recv() => tracing::info!("{told}"),
            }
        }
    }

    /// The same; until then the gateway reads its config again whenever the file changes or the operator asks.
    pub(crate) async fn govern(&mut self, serve: &RunningGateway) -> u8 {
        let watch = serve.config_watch();
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return 15,
                _ = self.interrupt.recv() => return 2,
                _ = self.hangup.recv() => {
                    serve.reopen();
                    serve.reload(Trigger::Asked);
                }
                _ = self.reload.recv() => serve.reload(Trigger::Asked),
                () = watch.changed() => serve.reload(Trigger::Changed),
            }
        }
    }
}
