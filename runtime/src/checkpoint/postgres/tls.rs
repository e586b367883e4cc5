//! TLS, as far as `sslmode` in the URL asks for it. Modes mean what they mean to libpq: `prefer` and
//! `require` encrypt and believe any certificate; `verify-full` wants one that an authority issued for
//! the host's name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::target::{Server, Target, refused};
use crate::checkpoint::saver::SaverError;
use crate::doors::{Clock, Doors, Io};

type Connect = <MakeRustlsConnect as MakeTlsConnect<Box<dyn Io>>>::TlsConnect;

/// Makes the client's end of TLS.
#[derive(Clone)]
pub(super) struct Tls(MakeRustlsConnect);

impl Tls {
    /// `roots` are certificates of authorities as PEM, in place of those that are known anyway.
    pub fn new(target: &Target, doors: &Doors, roots: Option<&str>) -> Result<Tls, SaverError> {
        let provider = Arc::new(ring::default_provider());
        let clock = Arc::new(DoorClock(doors.clock.clone()));
        let builder = ClientConfig::builder_with_details(provider.clone(), clock)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(format!("TLS: {error}")))?;
        let config = match target.verifies {
            true => builder.with_root_certificates(authorities(roots)?).with_no_client_auth(),
            false => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth(),
        };
        Ok(Tls(MakeRustlsConnect::new(config)))
    }

    pub fn to(&self, server: &Server) -> Connect {
        let mut make = self.0.clone();
        MakeTlsConnect::<Box<dyn Io>>::make_tls_connect(&mut make, &server.name)
            .expect("it only takes the name down")
    }
}

fn authorities(roots: Option<&str>) -> Result<RootCertStore, SaverError> {
    let Some(pem) = roots else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let problem = |problem: &dyn std::fmt::Display| {
        SaverError::Store(format!("PostgresOptions::root_certificates: {problem}"))
    };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| problem(&error))?;
        store.add(certificate).map_err(|error| problem(&error))?;
    }
    match store.is_empty() {
        true => Err(problem(&"there is no certificate in it")),
        false => Ok(store),
    }
}

/// Whether a certificate is still good depends on the time.
struct DoorClock(Arc<dyn Clock>);

impl TimeProvider for DoorClock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.0.now().duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

impl std::fmt::Debug for DoorClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DoorClock")
    }
}

/// Takes any certificate, but only from somebody who has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
