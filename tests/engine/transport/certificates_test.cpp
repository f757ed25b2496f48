#include "troupe/engine/transport/trust/certificates.hpp"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>

#include "../../files.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

[[gnu::noinline]] void check_set_refused(
  const std::string& folder, const std::string& because,
  const certificate_options& options = {}) {
  CHECK_THROWS_MATCHES(make_certificates(folder, options), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("a set is its owner's alone, and can be used") {
  const temporary_folder folder;
  const auto set = folder / "set";
  make_certificates(set);
  CHECK(mode_of(set) == 0700);
  CHECK(mode_of(set + "/member.key") == 0600);
  CHECK_FALSE(std::filesystem::exists(set + "/authority.key"));
  CHECK_NOTHROW(tls_context::of_certificates(set));
}

TEST_CASE("certificates that would be valid for no day are refused") {
  const temporary_folder folder;
  check_set_refused(folder / "set", "valid for 0 days", {.days = 0});
  check_set_refused(folder / "set", "valid for -3 days", {.days = -3});
  CHECK_FALSE(std::filesystem::exists(folder / "set"));
}

TEST_CASE("the openssl command accepts a set") {
  if (!runs("openssl version"))
    SKIP("there is no openssl command");
  const temporary_folder folder;
  const auto set = folder / "set";
  make_certificates(set, {.days = 3});
  const auto verify =
    "openssl verify -x509_strict -CAfile '" + set + "/authority.pem' ";
  const auto member = "'" + set + "/member.pem'";
  CHECK(runs(verify + "-purpose sslserver " + member));
  CHECK(runs(verify + "-purpose sslclient " + member));
  CHECK(runs("openssl pkey -check -noout -in '" + set + "/member.key'"));
  const auto checks = "openssl x509 -noout -in " + member + " -checkend ";
  CHECK(runs(checks + "250000"));
  CHECK_FALSE(runs(checks + "260000"));
}

TEST_CASE("a kept authority makes further members") {
  const temporary_folder folder;
  const auto first = folder / "first", second = folder / "second";
  make_certificates(first, {.keep_authority_key = true});
  CHECK(mode_of(first + "/authority.key") == 0600);
  make_certificates(second, {.authority = first});
  CHECK_FALSE(std::filesystem::exists(second + "/authority.key"));
  CHECK_NOTHROW(tls_context::of_certificates(second));
  check_set_refused(folder / "third", "--keep-authority-key",
                    {.authority = second});
  CHECK_FALSE(std::filesystem::exists(folder / "third"));
}

TEST_CASE("nothing is overwritten, and no folder that is open to others") {
  const temporary_folder folder;
  const auto set = folder / "set";
  make_certificates(set);
  check_set_refused(set, "already exists");
  std::filesystem::create_directory(folder / "open");
  ::chmod((folder / "open").c_str(), 0755);
  check_set_refused(folder / "open", "mode 700");
  CHECK(std::filesystem::is_empty(folder / "open"));
}

TEST_CASE("files that can't be used are named") {
  const temporary_folder folder;
  const auto set = folder / "set";
  make_certificates(set);
  const auto use = [&] { tls_context::of_certificates(set); };
  ::chmod((set + "/member.key").c_str(), 0644);
  CHECK_THROWS_MATCHES(use(), error, MessageMatches(ContainsSubstring("600")));
  ::chmod((set + "/member.key").c_str(), 0600);
  const temporary_folder other;
  make_certificates(other / "set");
  std::filesystem::copy_file(other / "set/member.key", set + "/member.key",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_MATCHES(use(), error,
                       MessageMatches(ContainsSubstring("member.key")));
  std::filesystem::remove(set + "/authority.pem");
  CHECK_THROWS_MATCHES(
    use(), error, MessageMatches(ContainsSubstring("troupe certificates")));
}
