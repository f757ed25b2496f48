#include "troupe/engine/transport/trust/certificates.hpp"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/private_file.hpp"
#include "troupe/engine/transport/trust/keys.hpp"
#include "troupe/engine/transport/trust/openssl_pointers.hpp"

namespace troupe {

namespace {

using extension_pointer =
  std::unique_ptr<::X509_EXTENSION, freed_by<::X509_EXTENSION_free>>;

void require_made(bool success) {
  if (!success)
    fail(error_code::internal, "OpenSSL could not create a certificate");
}

key_pointer make_key() {
  key_pointer key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  require_made(key != nullptr);
  return key;
}

struct member {
  certificate_pointer certificate;
  key_pointer key;
};

void set_name(::X509* certificate, const char* name) {
  auto* subject = ::X509_get_subject_name(certificate);
  require_made(::X509_NAME_add_entry_by_txt(
                 subject, "CN", MBSTRING_ASC,
                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0)
               == 1);
}

void set_serial(::X509* subject) {
  auto bytes = random_bytes(16);
  bytes.front() = static_cast<char>((bytes.front() & 0x3f) | 0x40);  // positive
  std::unique_ptr<::BIGNUM, freed_by<::BN_free>> number(
    ::BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                static_cast<int>(bytes.size()), nullptr));
  require_made(
    ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(subject))
    != nullptr);
}

void add_extension(::X509* target, ::X509* issuer, int extension_id,
                   const char* value) {
  ::X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, target, nullptr, nullptr, 0);
  const extension_pointer extension(
    ::X509V3_EXT_conf_nid(nullptr, &context, extension_id, value));
  require_made(extension != nullptr
               && ::X509_add_ext(target, extension.get(), -1) == 1);
}

/// Makes a member that signs itself if there is no issuer.
member make_member(const char* name, const member* issuer, int days) {
  member result{certificate_pointer(::X509_new()), make_key()};
  auto* certificate = result.certificate.get();
  const auto* signer = issuer == nullptr ? &result : issuer;
  require_made(certificate != nullptr);
  ::X509_set_version(certificate, X509_VERSION_3);
  set_serial(certificate);
  set_name(certificate, name);
  // Allows for clocks that differ a little between a job's machines.
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -3600);
  ::X509_time_adj_ex(::X509_getm_notAfter(certificate), days, 0, nullptr);
  ::X509_set_issuer_name(certificate,
                         ::X509_get_subject_name(signer->certificate.get()));
  require_made(::X509_set_pubkey(certificate, result.key.get()) == 1);
  auto* source = signer->certificate.get();
  const bool is_authority = issuer == nullptr;
  add_extension(
    certificate, source, NID_basic_constraints,
    is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
  add_extension(
    certificate, source, NID_key_usage,
    is_authority ? "critical,keyCertSign" : "critical,digitalSignature");
  add_extension(certificate, source, NID_subject_key_identifier, "hash");
  add_extension(certificate, source, NID_authority_key_identifier, "keyid");
  if (!is_authority)
    add_extension(certificate, source, NID_ext_key_usage,
                  "serverAuth,clientAuth");
  require_made(::X509_sign(certificate, signer->key.get(), ::EVP_sha256()) > 0);
  return result;
}

template <class Write>
std::string pem_of(Write&& write) {
  const bio_pointer memory(::BIO_new(::BIO_s_mem()));
  require_made(memory != nullptr && write(memory.get()) == 1);
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string pem_of(const certificate_pointer& certificate) {
  return pem_of([&](::BIO* target) {
    return ::PEM_write_bio_X509(target, certificate.get());
  });
}

std::string pem_of(const key_pointer& key) {
  return pem_of([&](::BIO* target) {
    return ::PEM_write_bio_PKCS8PrivateKey(target, key.get(), nullptr, nullptr,
                                           0, nullptr, nullptr);
  });
}

/// The content of one of an authority's files, for OpenSSL to read.
struct readable_file {
  readable_file(const std::string& path, bool is_secret) try {
    input_file file(path);
    is_secret ? require_private(file) : require_trustworthy(file);
    bytes = file.read(std::size_t{1} << 20);
    reader.reset(
      ::BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  } catch (const error& reason) {
    fail(error_code::io, "{}; give a folder created with --keep-authority-key",
         reason.what());
  }

  std::string bytes;
  bio_pointer reader;
};

member read_authority(const std::string& folder) {
  const auto no_phrase = [](char*, int, int, void*) { return -1; };
  const readable_file certificate(folder + "/authority.pem", false);
  const readable_file key(folder + "/authority.key", true);
  member authority{certificate_pointer(::PEM_read_bio_X509(
                     certificate.reader.get(), nullptr, no_phrase, nullptr)),
                   key_pointer(::PEM_read_bio_PrivateKey(
                     key.reader.get(), nullptr, no_phrase, nullptr))};
  if (!authority.certificate || !authority.key
      || ::X509_check_private_key(authority.certificate.get(),
                                  authority.key.get())
           != 1)
    fail(error_code::io,
         "{}: authority.pem and authority.key do not belong together", folder);
  return authority;
}

struct new_file {
  const char* name;
  std::string bytes;
  bool is_secret;
};

void prepare_folder(const std::string& folder,
                    const std::vector<new_file>& files) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(error_code::io, "{}: can't be made: {}", folder, std::strerror(errno));
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)
      || (status.st_mode & 077U) != 0)
    fail(error_code::io, "{}: must be missing, or a folder with mode 700",
         folder);
  for (const auto& [name, bytes, is_secret] : files)
    if (std::filesystem::exists(folder + '/' + name))
      fail(error_code::io,
           "{}/{}: already exists, and processes may be using it; choose "
           "another folder",
           folder, name);
}

void write_all(const std::string& folder, const std::vector<new_file>& files) {
  std::vector<std::string> written;
  try {
    for (const auto& [name, bytes, is_secret] : files) {
      const auto path = folder + '/' + name;
      // The folder is closed to others, so setting the mode afterwards is safe.
      write_file_atomically(path, bytes);
      written.push_back(path);
      if (::chmod(path.c_str(), is_secret ? 0600 : 0644) != 0)
        fail(error_code::io, "{}: can't restrict access to its owner: {}", path,
             std::strerror(errno));
    }
  } catch (...) {
    for (const auto& path : written)
      ::unlink(path.c_str());
    throw;
  }
}

}  // namespace

void make_certificates(const std::string& folder,
                       const certificate_options& options) {
  if (options.days < 1)
    fail(error_code::invalid_argument,
         "certificates can't be valid for {} days; use 1 or more",
         options.days);
  const bool is_new = options.authority.empty();
  const auto authority =
    is_new ? make_member("troupe job authority", nullptr, options.days)
           : read_authority(options.authority);
  const auto job_member =
    make_member("troupe job member", &authority, options.days);
  std::vector<new_file> files{
    {"authority.pem", pem_of(authority.certificate), false},
    {"member.pem", pem_of(job_member.certificate), false},
    {"member.key", pem_of(job_member.key), true}};
  if (options.keep_authority_key)
    files.push_back({"authority.key", pem_of(authority.key), true});
  const bool existed = std::filesystem::exists(folder);
  try {
    prepare_folder(folder, files);
    write_all(folder, files);
  } catch (...) {
    if (!existed)
      ::rmdir(folder.c_str());
    throw;
  }
}

}  // namespace troupe
