#include "troupe/engine/transport/trust/secret_file.hpp"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>

#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

struct some_files : temporary_folder {
  std::string secret(const std::string& bytes, mode_t mode = 0600) const {
    auto path = write("token", bytes);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
  }
};

void refuses(const std::string& path, const std::string& why) {
  INFO(why);
  CHECK_THROWS_MATCHES(read_secret(path), error,
                       MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("a secret is read without the white space around it") {
  const some_files files;
  CHECK(read_secret(files.secret("0123456789abcdef")) == "0123456789abcdef");
  CHECK(read_secret(files.secret(" 0123456789abcdef \r\n", 0400))
        == "0123456789abcdef");
}

TEST_CASE("files that are no secret files are refused, each with its reason") {
  const some_files files;
  refuses("", "name of the token file is empty");
  refuses(files / "missing", "No such file");
  refuses(files / "", "is a folder");
  refuses("/dev/zero", "is a device");
  const auto pipe = files / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  refuses(pipe, "is a pipe");  // immediately, even without a writer
  std::filesystem::create_symlink("loop", files / "loop");
  refuses(files / "loop", "Too many levels of symbolic links");
  refuses(files / std::string(300, 'x'), "File name too long");
  refuses(files.secret("0123456789abcdef", 0640), "chmod 600");
  refuses(files.secret("0123456789abcdef", 0602), "chmod 600");
  refuses(files.secret(""), "has 0 characters");
  refuses(files.secret(" \n"), "0 characters");
  refuses(files.secret("0123456789abcde\n"), "15 characters");
  refuses(files.secret("0123456789abcdef and more"), "more than one word");
  std::string with_null = "0123456789abcdefgh";
  with_null[16] = '\0';
  refuses(files.secret(with_null), "more than one word");
  refuses(files.secret(std::string(1 << 20, 'x')), "more than 4096 bytes");
}

TEST_CASE("secrets are equal or not") {
  CHECK(same_secret("abc", "abc"));
  CHECK(same_secret("", ""));
  CHECK_FALSE(same_secret("abc", "abd"));
  CHECK_FALSE(same_secret("abc", "ab"));
  CHECK_FALSE(same_secret("", std::string(1, '\0')));
}
