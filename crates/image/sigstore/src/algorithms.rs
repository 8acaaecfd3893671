//! Supported signature algorithms.

use rustls_pki_types::SignatureVerificationAlgorithm;
use webpki::aws_lc_rs;

/// Algorithms of signers, by the kind of key. RSA and P-384 keys have been used in two ways.
pub(crate) const OF_SIGNERS: [&dyn SignatureVerificationAlgorithm; 6] = [
    aws_lc_rs::ECDSA_P256_SHA256,
    aws_lc_rs::ECDSA_P384_SHA256,
    aws_lc_rs::ECDSA_P384_SHA384,
    aws_lc_rs::ED25519,
    aws_lc_rs::RSA_PKCS1_2048_8192_SHA256,
    aws_lc_rs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
];

/// Algorithms of authorities.
pub(crate) const OF_AUTHORITIES: [&dyn SignatureVerificationAlgorithm; 8] = [
    aws_lc_rs::ECDSA_P256_SHA256,
    aws_lc_rs::ECDSA_P256_SHA384,
    aws_lc_rs::ECDSA_P384_SHA256,
    aws_lc_rs::ECDSA_P384_SHA384,
    aws_lc_rs::ED25519,
    aws_lc_rs::RSA_PKCS1_2048_8192_SHA256,
    aws_lc_rs::RSA_PKCS1_2048_8192_SHA384,
    aws_lc_rs::RSA_PKCS1_2048_8192_SHA512,
];
