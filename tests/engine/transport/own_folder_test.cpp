#include "troupe/engine/transport/address/own_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../../files.hpp"
#include "../../temporary_folder.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

folder_places places_in(const temporary_folder& folder) {
  return {{folder / "troupe-1"}, folder / "troupe-1-"};
}

/// Checks that another folder is used when the usual one can't be, by all
/// processes.
void check_elsewhere(const temporary_folder& folder, const std::string& why) {
  const auto places = places_in(folder);
  const auto first = find_own_folder(places);
  CHECK_THAT(first.trouble, ContainsSubstring(why));
  CHECK(first.path.starts_with(places.prefix));
  CHECK(mode_of(first.path) == 0700);
  CHECK(find_own_folder(places).path == first.path);
  CHECK(own_folders(places) == std::vector{first.path});
}

}  // namespace

TEST_CASE("the usual folder is made for its owner alone") {
  const temporary_folder folder;
  const auto places = places_in(folder);
  CHECK(own_folders(places).empty());
  for (int times = 0; times < 2; ++times) {
    const auto folder_found = find_own_folder(places);
    CHECK(folder_found.path == folder / "troupe-1");
    CHECK(folder_found.trouble.empty());
    CHECK(mode_of(folder_found.path) == 0700);
  }
  CHECK(own_folders(places) == places.usual);
  // The usual one is used, even beside a folder from when it could not be.
  std::filesystem::create_directory(folder / "troupe-1-abcdef");
  ::chmod((folder / "troupe-1-abcdef").c_str(), 0700);
  CHECK(own_folders(places) == places.usual);
}

TEST_CASE("a folder that others can enter is not used") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "troupe-1");
  ::chmod((folder / "troupe-1").c_str(), 0755);
  check_elsewhere(folder, "is open to other users");
}

TEST_CASE("a link in the place of the folder is not followed") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "target");
  ::chmod((folder / "target").c_str(), 0700);
  std::filesystem::create_directory_symlink(folder / "target",
                                            folder / "troupe-1");
  check_elsewhere(folder, "is no folder");
  CHECK(std::filesystem::is_empty(folder / "target"));
}

TEST_CASE("another user's folder is not used, nor those of its names") {
  if (::geteuid() != 0)
    SKIP("only root can make another user's folder");
  const temporary_folder folder;
  for (const auto* name : {"troupe-1", "troupe-1-000000"}) {
    std::filesystem::create_directory(folder / name);
    ::chmod((folder / name).c_str(), 0700);
    REQUIRE(::chown((folder / name).c_str(), 65534, 65534) == 0);
  }
  check_elsewhere(folder, "belongs to user 65534");
}
