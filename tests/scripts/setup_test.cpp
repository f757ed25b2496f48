// Which packages scripts/setup chooses, and where it gets CAF's source. Scripts
// with prescribed answers replace apt-cache, apt-get and python3 (which fetches
// the release archive).
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <map>
#include <string>

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
  /// The effect of apt-get, besides listing its mirror.
  void apt(const std::string& does) {
    stub("apt-get", "case $1 in indextargets) echo http://localhost ;; *) "
                      + does + " ;; esac");
  }
  std::string archive() const { return path() + "/source.gz"; }

  /// The version of each package that apt would install; others have none.
  void candidates(const std::map<std::string, std::string>& versions) {
    std::string cases;
    for (const auto& [package, version] : versions)
      cases += fmt::format("{}) echo '  Candidate: {}' ;; ", package, version);
    stub("apt-cache",
         "case $2 in " + cases + "*) echo '  Candidate: (none)' ;; esac");
  }

  /// Runs commands after sourcing scripts/setup.
  auto run(const std::string& commands) const {
    return run_program(
      fmt::format("env PATH={0}/bin:$PATH TROUPE_CACHE={0}/cache "
                  "TROUPE_DOWNLOADS={0}/downloads CXX= bash -c "
                  "'source {1}/scripts/setup; {2}'",
                  path(), TROUPE_SOURCE_DIR, commands));
  }
  auto caf_source() const {
    return run(fmt::format(
      "system_id() {{ echo debian; }}; "
      "source_sha256[caf]=$(sha256sum <{}/source | cut -d \" \" -f 1); "
      "source_archive caf",
      path()));
  }
  /// The choices if all packages are missing: those of apt, then the names of
  /// what comes from elsewhere.
  std::string choices() const {
    return run(
             "is_there() { false; }; packages=(); elsewhere=(); "
             "mapfile -t missing < <(missing_packages); "
             "choose_packages \"${missing[@]}\"; "
             "echo \"${packages[@]}\"; echo \"${elsewhere[@]}\"")
      .output;
  }

  /// Replaces a program.
  void stub(const std::string& name, const std::string& does) {
    const auto file =
      folder_.write("bin/" + name, "#!/bin/bash\n" + does + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  std::string path() const { return folder_ / "."; }

  temporary_folder folder_;
};

}  // namespace

TEST_CASE("set-up takes CAF's source from the folder that is named") {
  machine here;
  here.put_into_downloads("source");
  const auto run = here.caf_source();
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("caf: source from TROUPE_DOWNLOADS"));
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
      && ContainsSubstring("caf: source from its release archive"));
}

TEST_CASE("set-up takes CAF's source from an index that has expired") {
  machine here;
  here.apt(fmt::format(
    R"([[ "$*" == *Check-Valid-Until=false* ]] || {{ echo "E: expired" >&2; exit 100; }}
    [[ "$*" != *source* ]] || cp {} actor-framework_0.18.7.orig.tar.gz)",
    here.archive()));
  const auto run = here.caf_source();
  CHECK(run.exit_code == 0);
  CHECK_THAT(
    run.output,
    ContainsSubstring("caf: source from the system's package of its source"));
}

TEST_CASE("set-up says what to do where CAF's source is nowhere") {
  const machine here;
  const auto run = here.caf_source();
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("name its folder in TROUPE_DOWNLOADS"));
}

namespace {

/// Adds the packages that are the same on every system.
std::map<std::string, std::string> with_usual(
  std::map<std::string, std::string> candidates) {
  for (const auto* package :
       {"ninja-build", "git", "python3", "python3-pip", "libfmt-dev",
        "libspdlog-dev", "nlohmann-json3-dev", "libcli11-dev", "libssl-dev"})
    candidates.emplace(package, "9");
  return candidates;
}

}  // namespace

TEST_CASE("set-up chooses each system's packages by their versions") {
  machine here;
  // Debian 12
  here.candidates(with_usual({{"g++", "4:12.2.0-3"},
                              {"cmake", "3.25.1-1"},
                              {"libtomlplusplus-dev", "3.3.0+ds-0.2"},
                              {"libboost-dev", "1.74.0.3"},
                              {"libboost1.81-dev", "1.81.0-5+deb12u1"},
                              {"catch2", "2.13.10-1"},
                              {"libtcmalloc-minimal4", "2.10-1"},
                              {"bible-kjv", "4.38"}}));
  auto choices = here.choices();
  CHECK_THAT(choices,
             ContainsSubstring(
               "g++ cmake ninja-build git python3 python3-pip libfmt-dev "
               "libspdlog-dev nlohmann-json3-dev libcli11-dev "
               "libtomlplusplus-dev libboost1.81-dev libssl-dev "
               "libtcmalloc-minimal4 bible-kjv\ncatch2\n"));
  CHECK_THAT(choices, ContainsSubstring("going on without mold"));
  // Debian 13
  here.candidates(with_usual({{"g++", "4:14.2.0-1"},
                              {"cmake", "3.31.6-2"},
                              {"libtomlplusplus-dev", "3.4.0+ds-0.2+b1"},
                              {"libboost-dev", "1.83.0.2+b2"},
                              {"libcatch2-dev", "3.7.1-0.5"},
                              {"catch2", "3.7.1-0.5"},
                              {"libtcmalloc-minimal4t64", "2.16-1"}}));
  choices = here.choices();
  CHECK_THAT(choices, ContainsSubstring("libtomlplusplus-dev libboost-dev "
                                        "libssl-dev libcatch2-dev "
                                        "libtcmalloc-minimal4t64\n\n"));
  // Ubuntu 22.04
  here.candidates(with_usual({{"g++", "4:11.2.0-1ubuntu1"},
                              {"g++-12", "12.3.0-1ubuntu1~22.04"},
                              {"cmake", "3.22.1-1ubuntu1"},
                              {"libboost-dev", "1.74.0.3ubuntu7"},
                              {"catch2", "2.13.8-1"}}));
  choices = here.choices();
  CHECK_THAT(choices, ContainsSubstring("g++-12 ninja-build"));
  CHECK_THAT(choices, ContainsSubstring("\ncmake tomlplusplus boost catch2\n"));
}

TEST_CASE("set-up says which package a system lacks") {
  machine here;
  here.candidates({{"g++", "4:14.2.0-1"}, {"cmake", "3.31.6-2"}});
  CHECK_THAT(here.choices(),
             ContainsSubstring("this system has no package for ninja-build"));
}

TEST_CASE(
  "a compiler is taken if it is new enough, else a newer one beside it") {
  machine here;
  const auto answers = [&](const std::string& name, const std::string& macros) {
    here.stub(name,
              "exec " TROUPE_COMPILER " -E -undef " + macros + " -x c++ -");
  };
  answers("c++", "-D__GNUC__=11");
  answers("g++-12", "-D__GNUC__=12");
  CHECK_THAT(here.run("compiler").output, ContainsSubstring("g++-12"));
  answers("c++", "-D__GNUC__=4 -D__clang__ -D__clang_major__=15");
  CHECK_THAT(here.run("compiler").output, ContainsSubstring("g++-12"));
  answers("c++", "-D__GNUC__=4 -D__clang__ -D__clang_major__=16");
  CHECK(here.run("compiler").output == "c++\n");
  CHECK_THAT(here.run("CXX=absent; use_compiler").output,
             ContainsSubstring("no compiler is new enough"));
}
