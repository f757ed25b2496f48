#include "troupe/training/shared_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <future>

#include "../engine/transport/joined_meshes.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/folder_marker.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using namespace std::chrono_literals;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// The errors of three processes, of which each has its own path.
std::vector<std::string> errors_of(const std::vector<std::string>& paths,
                                   decltype(require_shared_folder)& require) {
  joined_meshes meshes(3);
  return in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    job->start({});
    const auto process = static_cast<std::size_t>(job->place().process);
    require(paths.at(process), job, {}, 20ms);
  });
}

std::string made(const temporary_folder& at, const std::string& name) {
  std::filesystem::create_directories(at / name);
  return at / name;
}

std::string checkpoint(const temporary_folder& at, const std::string& name,
                       const std::string& text) {
  made(at, name);
  at.write(name + "/" + std::string(manifest_name), text);
  return at / name;
}

}  // namespace

TEST_CASE("processes that see one folder by different paths leave nothing") {
  const temporary_folder at;
  const auto path = made(at, "run");
  std::filesystem::create_directory_symlink(path, at / "link");
  CHECK(errors_of({path, at / "link", at / "./run"}, require_shared_folder)
        == std::vector<std::string>(3));
  CHECK(std::filesystem::is_empty(path));
}

TEST_CASE("all processes name the one that sees another folder") {
  const temporary_folder at;
  const auto path = made(at, "run"), other = made(at, "other");
  const auto errors = errors_of({path, path, other}, require_shared_folder);
  for (const auto& text : errors) {
    CHECK_THAT(text, ContainsSubstring("process 2 (" + other + " on "));
    CHECK_THAT(text, ContainsSubstring("folder of process 0 (" + path));
    CHECK_THAT(text, EndsWith("machines share, by NFS, say"));
  }
  CHECK(std::filesystem::is_empty(path));
  CHECK(std::filesystem::is_empty(other));
}

TEST_CASE("a folder that is missing elsewhere is not made there") {
  const temporary_folder at;
  const auto errors = errors_of(
    {made(at, "run"), at / "run", at / "no/such/run"}, require_shared_folder);
  CHECK_THAT(errors[0], ContainsSubstring("process 2 ("));
  CHECK(std::filesystem::is_empty(at / "run"));
  CHECK_FALSE(std::filesystem::exists(at / "no"));
}

TEST_CASE(
  "a marker that appears later is found, unless its folder is missing") {
  const temporary_folder at;
  CHECK_FALSE(is_seen(at / "none/marker", "x", 60s));
  const auto path = made(at, "run") + "/marker";
  auto seen =
    std::async(std::launch::async, [&] { return is_seen(path, "x", 60s); });
  CHECK(seen.wait_for(5ms) == std::future_status::timeout);
  at.write("run/marker", "x");
  CHECK(seen.get());
}

TEST_CASE("copies of a checkpoint are as good as one that is shared") {
  const temporary_folder at;
  const auto a = checkpoint(at, "a", "same"), b = checkpoint(at, "b", "same");
  CHECK(errors_of({a, b, b}, require_same_checkpoint)
        == std::vector<std::string>(3));
}

TEST_CASE("all processes name the one that lacks the checkpoint") {
  const temporary_folder at;
  const auto path = checkpoint(at, "a", "same");
  for (const auto& other : {checkpoint(at, "b", "other"), at / "none"})
    for (const auto& text :
         errors_of({path, other, path}, require_same_checkpoint)) {
      CHECK_THAT(text, ContainsSubstring("process 1 (" + other));
      CHECK_THAT(text, EndsWith("copy it to this path on each"));
    }
}
