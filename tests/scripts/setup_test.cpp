// Where scripts/setup takes CAF's source from. In place of apt-get and python3
// (which fetches the release archive) stand scripts that answer as told.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

class machine {
 public:
  machine() {
    for (const auto* name :
         {"bin", "downloads", "cache", "cache/downloads", "cache/tmp"})
      std::filesystem::create_directories(path() + "/" + name);
    release_answers(false);
    apt("exit 100");
    run_program(
      fmt::format("cd {} && echo source >source && gzip -kn source "
                  "&& echo other >other && gzip -kn other",
                  path()));
  }

  void put_into_downloads(const std::string& what) {
    run_program(
      fmt::format("cp {0}/{1}.gz {0}/downloads/actor-framework-0.18.7.tar.gz",
                  path(), what));
  }
  void release_answers(bool yes) {
    stub("python3",
         yes ? fmt::format("cp {}/source.gz \"$3\"", path()) : "exit 1");
  }
  /// What apt-get does, beside saying which mirror there is.
  void apt(const std::string& does) {
    stub("apt-get", "case $1 in indextargets) echo http://localhost ;; *) "
                      + does + " ;; esac");
  }
  std::string archive() const { return path() + "/source.gz"; }

  auto caf_source() const {
    return run_program(fmt::format(
      "env PATH={0}/bin:$PATH TROUPE_CACHE={0}/cache "
      "TROUPE_DOWNLOADS={0}/downloads bash -c 'source {1}/scripts/setup; "
      "is_debian() {{ true; }}; "
      "caf_sha256=$(sha256sum <{0}/source | cut -d \" \" -f 1); caf_source'",
      path(), TROUPE_SOURCE_DIR));
  }

 private:
  std::string path() const { return folder_ / "."; }

  void stub(const std::string& name, const std::string& does) {
    const auto file =
      folder_.write("bin/" + name, "#!/bin/bash\n" + does + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  temporary_folder folder_;
};

}  // namespace

TEST_CASE("set-up takes CAF's source from the folder that is named") {
  machine here;
  here.put_into_downloads("source");
  const auto run = here.caf_source();
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("CAF: source from TROUPE_DOWNLOADS"));
}

TEST_CASE("set-up passes over a file with another checksum") {
  machine here;
  here.put_into_downloads("other");
  here.release_answers(true);
  const auto run = here.caf_source();
  CHECK(run.exit_code == 0);
  CHECK_THAT(
    run.output,
    ContainsSubstring("TROUPE_DOWNLOADS gave another file; going on without")
      && ContainsSubstring("CAF: source from CAF's release archive"));
}

TEST_CASE("set-up takes CAF's source from an index that has expired") {
  machine here;
  here.apt(fmt::format(
    R"([[ "$*" == *Check-Valid-Until=false* ]] || {{ echo "E: expired" >&2; exit 100; }}
    [[ "$*" != *source* ]] || cp {} actor-framework_0.18.7.orig.tar.gz)",
    here.archive()));
  const auto run = here.caf_source();
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("CAF: source from Debian's source package"));
}

TEST_CASE("set-up says what to do where CAF's source is nowhere") {
  const machine here;
  const auto run = here.caf_source();
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("name its folder in TROUPE_DOWNLOADS"));
}
