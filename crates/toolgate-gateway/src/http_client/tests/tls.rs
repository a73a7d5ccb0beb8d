//! A server that speaks TLS, under a certificate made here.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use rustls_platform_verifier::Verifier;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    },
};

use super::*;

/// One element of DER: the tag, the length and the content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    match content.len() {
        0..128 => [&[tag, length[1]], &content[..]].concat(),
        128..256 => [&[tag, 0x81, length[1]], &content[..]].concat(),
        _ => [&[tag, 0x82, length[0], length[1]], &content[..]].concat(),
    }
}

const SEQUENCE: u8 = 0x30;

/// A self-signed certificate for `localhost` and an address, and its key.
fn certificate(address: [u8; 4]) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
    let ed25519 = der(SEQUENCE, &[&der(0x06, &[&[0x2b, 0x65, 0x70]])]);
    let common_name =
        der(SEQUENCE, &[&der(0x06, &[&[0x55, 0x04, 0x03]]), &der(0x0c, &[b"a test"])]);
    let name = der(SEQUENCE, &[&der(0x31, &[&common_name])]);
    let dates = [der(0x17, &[b"200101000000Z"]), der(0x17, &[b"491231235959Z"])].concat();
    let public = der(0x03, &[&[0], pair.public_key().as_ref()]);
    let names = der(SEQUENCE, &[&der(0x82, &[b"localhost"]), &der(0x87, &[&address])]);
    let names = der(SEQUENCE, &[&der(0x06, &[&[0x55, 0x1d, 0x11]]), &der(0x04, &[&names])]);
    let signed = der(
        SEQUENCE,
        &[
            &der(0xa0, &[&der(0x02, &[&[2]])]),
            &der(0x02, &[&[1]]),
            &ed25519,
            &name,
            &der(SEQUENCE, &[&dates]),
            &name,
            &der(SEQUENCE, &[&ed25519, &public]),
            &der(0xa3, &[&der(SEQUENCE, &[&names])]),
        ],
    );
    let signature = der(0x03, &[&[0], pair.sign(&signed).as_ref()]);
    let certificate = der(SEQUENCE, &[&signed, &ed25519, &signature]);
    (certificate.into(), key.as_ref().to_vec().into())
}

async fn start(address: [u8; 4]) -> (Server, CertificateDer<'static>) {
    let (certificate, key) = certificate(address);
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate.clone()], key.into()).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (Server::with_tls(Some(TlsAcceptor::from(Arc::new(config)))).await, certificate)
}

fn trusting(url: &str, certificate: CertificateDer<'static>) -> HttpClient {
    let provider = Arc::new(default_provider());
    let verifier = Verifier::new_with_extra_roots([certificate], Arc::clone(&provider)).unwrap();
    let tls = super::super::tls::tls(verifier, provider).unwrap();
    HttpClient::new(Arc::new(target(url).trusting(tls)))
}

#[tokio::test]
async fn tls_is_spoken_with_who_is_trusted_by_name_or_address() {
    let (server, certificate) = start([127, 0, 0, 1]).await;
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("https://{host}:{}/mcp", server.address.port());
        let client = trusting(&url, certificate.clone());
        assert_eq!(posted(&client, "one").await, "one");
        assert_eq!(posted(&client, "two").await, "two");
    }
    let seen = server.so_far().await;
    assert_eq!(seen.iter().filter(|seen| **seen == Seen::Opened).count(), 2, "{seen:?}");
}

#[tokio::test]
async fn nothing_is_sent_to_whom_nobody_trusts() {
    let (server, certificate) = start([127, 0, 0, 2]).await;
    let url = format!("https://{}/mcp", server.address);
    let unknown = client(&url);
    // The client trusts the certificate, but it is for another address.
    let misnamed = trusting(&url, certificate);
    for client in [unknown, misnamed] {
        let error = post(&client, "x").await.unwrap_err();
        assert!(matches!(&error, SendError::NotSent(text) if text.contains("no TLS")), "{error}");
    }
    assert!(!server.so_far().await.iter().any(|seen| matches!(seen, Seen::Request(..))));
}
