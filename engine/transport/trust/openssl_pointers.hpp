#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace troupe {

/// Frees an object of OpenSSL.
template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using key_pointer = std::unique_ptr<::EVP_PKEY, freed_by<::EVP_PKEY_free>>;
using certificate_pointer = std::unique_ptr<::X509, freed_by<::X509_free>>;
using bio_pointer = std::unique_ptr<::BIO, freed_by<::BIO_free_all>>;
using session_pointer =
  std::unique_ptr<::SSL_SESSION, freed_by<::SSL_SESSION_free>>;

}  // namespace troupe
