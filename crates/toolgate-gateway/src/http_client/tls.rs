//! TLS with the certificates that the operating system trusts.

use std::sync::{Arc, OnceLock};

use rustls_platform_verifier::Verifier;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig,
        crypto::{CryptoProvider, aws_lc_rs},
    },
};

/// TLS that trusts the certificates of the operating system. It is made once, because that reads many files.
pub(super) fn system_tls() -> Result<TlsConnector, String> {
    static MADE: OnceLock<Result<TlsConnector, String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Verifier::new(Arc::clone(&provider)).map_err(|error| error.to_string())?;
        tls(verifier, provider)
    })
    .clone()
}

/// TLS with the given verifier of certificates.
pub(super) fn tls(
    verifier: Verifier,
    provider: Arc<CryptoProvider>,
) -> Result<TlsConnector, String> {
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
