//! Converts the settings into the inputs of the layers. Each layer reads its input by type.

use super::Settings;
use crate::{
    layer_spec::{LayerInputs, SettingsFolder},
    middleware::{
        policy::{Bindings, PolicyTables},
        rate_limit::RateLimitConfig,
        safety::HighestTier,
        timeout::CallTime,
    },
};

impl Settings {
    /// Adds the settings of every layer to the inputs.
    pub(crate) fn add_to(&self, inputs: &mut LayerInputs) {
        self.layer_tables().add_to(inputs);
        inputs.set(SettingsFolder(self.folder.clone()));
        inputs.set(self.audit.clone());
        inputs.set(self.redact.clone());
        inputs.set(self.telemetry.clone());
        inputs.set_if_some(self.chain.preset());
        inputs.set_if_some(self.safety.map(HighestTier));
        inputs.set_if_some(self.limits.timeout.get().map(CallTime));
        inputs.set_if_some(self.response_limit());
        let (rate, quota) = (self.limits.rate.clone(), self.limits.quota.clone());
        inputs.set(RateLimitConfig { rate, quota });
        inputs.set(self.filter());
        inputs.set_if_some(self.scopes());
        inputs.set(PolicyTables(self.policies.clone()));
        let (namespace, principals) = (self.policy.clone(), self.principals.clone());
        inputs.set(Bindings { namespace, principals });
    }
}
