// Folders of checkpoints: complete or absent, and verified when read.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>

#include <fmt/format.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "../../files.hpp"
#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "prepared_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe/engine/checkpoint/sha256.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("SHA-256 is that of the standard's example") {
  const std::string text = "abc";
  CHECK(sha256_of(std::as_bytes(std::span(text)))
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a checkpoint is read by name, whichever file holds a tensor") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  CHECK(folder.steps().empty());
  save(folder, 12);
  CHECK(folder.steps() == std::vector<std::int64_t>{12});
  CHECK(folder.path_of(12).ends_with("step-00000012"));
  const stored_checkpoint checkpoint(folder.path_of(12));
  auto expected = manifest_of(12);
  expected.files = checkpoint.about().files;
  CHECK(checkpoint.about() == expected);
  CHECK(checkpoint.names().size() == 4);
  CHECK(at::equal(checkpoint.read("last.weight"), part_of(12, 1)[0].second));
  CHECK(at::equal(checkpoint.read("head.weight"), part_of(12, 0)[0].second));
  CHECK(at::equal(checkpoint.read("optimizer/exp_avg/last.weight"),
                  part_of(12, 1)[1].second));
  CHECK(checkpoint.find("absent") == nullptr);
  CHECK_THROWS_MATCHES(checkpoint.read("absent"), error,
                       says("lacks 'absent'"));
  checkpoint.verify();
  CHECK(entries_in(folder.path_of(12)) == 3);
}

TEST_CASE("the last checkpoints are kept, and every n-th") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  const auto foreign = folder.path_of(5);
  std::filesystem::create_directory(foreign);
  for (std::int64_t step = 10; step <= 70; step += 10)
    save(folder, step, {.last = 2, .every = 30});
  CHECK(folder.steps() == std::vector<std::int64_t>{70, 60, 30, 5});
  CHECK(entries_in(at / "all") == 4);
  CHECK(std::filesystem::exists(foreign));
}

TEST_CASE("a checkpoint of a step that is saved again takes its place") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 5);
  write_file(folder.path_of(5) + "/part-00000.safetensors", "damage");
  save(folder, 5);
  stored_checkpoint(folder.path_of(5)).verify();
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("what a killed process left is removed, and never read") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  folder.write_part(5, 0, part_of(5, 0));
  CHECK(folder.steps() == std::vector<std::int64_t>{4});
  folder.prepare();
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("parts of an earlier attempt's processes are never taken") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  const checkpoint_folder earlier(at / "all", "earlier");
  earlier.write_part(4, 1, part_of(4, 1));
  folder.write_part(4, 0, part_of(4, 0));
  CHECK_THROWS_MATCHES(
    folder.complete(manifest_of(4), 2, {}, [] { return true; }), error,
    says("part 1 was not written"));
  earlier.write_part(9, 1, part_of(9, 1));
  save(folder, 4);
  CHECK(folder.steps() == std::vector<std::int64_t>{4});
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("a checkpoint that was being replaced is put back") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  std::filesystem::rename(folder.path_of(4),
                          at / "all/.step-00000004.replaced");
  folder.write_part(4, 0, part_of(4, 0));
  folder.prepare();
  stored_checkpoint(folder.path_of(4)).verify();
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("later checkpoints are set aside, and outlive none of the new ones") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  for (const std::int64_t step : {2, 4, 6})
    save(folder, step, {.last = 3});
  folder.set_aside_after(2);
  CHECK(folder.steps() == std::vector<std::int64_t>{2});
  CHECK(std::filesystem::exists(folder.path_of(6) + ".damaged"));
  for (const std::int64_t step : {3, 4})
    save(folder, step);
  CHECK(folder.steps() == std::vector<std::int64_t>{4, 3});
  folder.set_aside_after(3);
  CHECK(folder.steps() == std::vector<std::int64_t>{3});
  for (const auto* aside : {".damaged", ".damaged-2"})
    stored_checkpoint(folder.path_of(4) + aside).verify();
}

TEST_CASE("the last finite checkpoint outlives later ones that are not") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  const auto save_bad = [&](std::int64_t step, double value) {
    folder.write_part(step, 0, {{"ids", at::ones({2}, at::kLong)}});
    folder.write_part(step, 1,
                      {{"a", at::ones({2})}, {"b", at::full({3}, value)}});
    auto about = manifest_of(step);
    about.aliases.clear();
    folder.complete(about, 2, {.last = 1});
  };
  save(folder, 2);
  save(folder, 4);
  save_bad(6, std::nan(""));
  save_bad(8, std::numeric_limits<double>::infinity());
  CHECK(folder.steps() == std::vector<std::int64_t>{8, 4});
  CHECK(stored_checkpoint(folder.path_of(8)).about().not_finite() == "b");
  CHECK(stored_checkpoint(folder.path_of(4)).about().not_finite() == "");
  std::vector<std::string> refused;
  CHECK(folder.last_valid([&](const std::string& sentence) {
    refused.push_back(sentence);
  }) == folder.path_of(4));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].ends_with("is intact, but 'b' holds a NaN or an infinity"));
  folder.set_aside_after(4);
  CHECK(std::filesystem::exists(folder.path_of(8) + ".not-finite"));
  save(folder, 9, {.last = 1});
  CHECK(folder.steps() == std::vector<std::int64_t>{9});
}

TEST_CASE("a folder is one job's until its lock goes") {
  const temporary_folder at;
  const auto folder = at / "all";
  {
    const folder_lock own(folder);
    CHECK_THROWS_MATCHES(folder_lock{folder}, error,
                         says(fmt::format("process {} on ", ::getpid())));
    CHECK(entries_in(folder) == 1);
  }
  CHECK(entries_in(folder) == 0);
  // The file of an owner that has ended is no lock.
  write_file(folder + "/.lock", "process 1 on elsewhere");
  const folder_lock again(folder);
  CHECK(entries_in(folder) == 1);
}

TEST_CASE(
  "a folder that was removed is locked again, unless another job has "
  "it") {
  const temporary_folder at;
  const auto folder = at / "all";
  folder_lock own(folder);
  std::filesystem::remove_all(folder);
  own.renew();
  CHECK_THROWS_MATCHES(folder_lock{folder}, error, says("in use"));
  std::filesystem::rename(folder, at / "moved");
  {
    folder_lock other(folder);
    CHECK_THROWS_MATCHES(own.renew(), error, says("in use"));
    std::filesystem::remove_all(at / "moved");
    CHECK_THROWS_MATCHES(folder_lock{folder}, error, says("in use"));
    other.renew();
  }
  own.renew();
  CHECK(entries_in(folder) == 1);
}

TEST_CASE("a checkpoint that fails leaves no parts, and nobody waits for it") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  folder.write_part(5, 0, part_of(5, 0));
  std::jthread other([&] { folder.refuse(5); });
  CHECK_THROWS_MATCHES(folder.complete(manifest_of(5), 2, {}), error,
                       says("could not write its part"));
  other.join();
  folder.discard(5);
  CHECK(entries_in(at / "all") == 1);
  CHECK_THROWS_MATCHES(folder.write_part(5, 1, part_of(5, 1)), error,
                       says("could not write its part"));
  save(folder, 6);
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("a manifest that was edited is refused") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  const auto path = folder.path_of(4) + "/manifest.json";
  auto text = content(path);
  const auto step = text.find("\"microbatches\": 32");
  REQUIRE(step != std::string::npos);
  write_file(path, text.replace(step, 18, "\"microbatches\": 33"));
  CHECK_THROWS_MATCHES(stored_checkpoint(folder.path_of(4)), error,
                       says("its own SHA-256 does not match"));
  text.replace(text.rfind("\"sha256\""), 8, "\"sha255\"");
  write_file(path, text);
  CHECK_THROWS_MATCHES(stored_checkpoint(folder.path_of(4)), error,
                       says("lacks the field 'sha256'"));
}

TEST_CASE("a folder where a file should be is refused, one without too") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  for (const std::int64_t step : {2, 4, 6})
    save(folder, step, {.last = 3});
  std::filesystem::remove(folder.path_of(6) + "/manifest.json");
  std::filesystem::remove(folder.path_of(4) + "/part-00001.safetensors");
  std::filesystem::create_directory(folder.path_of(4)
                                    + "/part-00001.safetensors");
  std::vector<std::string> refused;
  const auto last = folder.last_valid(
    [&](const std::string& sentence) { refused.push_back(sentence); });
  CHECK(last == folder.path_of(2));
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].starts_with(folder.path_of(6) + "/manifest.json"));
  CHECK(refused[1].find("is not a readable file") != std::string::npos);
}

TEST_CASE("a checkpoint of another version is not taken for a damaged one") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  const auto path = folder.path_of(4) + "/manifest.json";
  auto text = content(path);
  text.replace(text.find("troupe checkpoint 1"), 19, "troupe checkpoint 2");
  write_file(path, text);
  CHECK_THROWS_MATCHES(folder.last_valid([](const std::string&) {}), error,
                       says("has the format 'troupe checkpoint 2'"));
}

TEST_CASE("a checkpoint that can't be read is not taken for a damaged one") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  std::filesystem::permissions(at / ".", std::filesystem::perms(0755));
  for (const std::string file : {"/manifest.json", "/part-00001.safetensors"}) {
    save(folder, 4);
    std::filesystem::permissions(folder.path_of(4) + file,
                                 std::filesystem::perms::none);
    // Root could read it, so this thread accesses files as another user
    // meanwhile.
    const auto own = ::setfsuid(65534);
    CHECK_THROWS_MATCHES(folder.last_valid([](const std::string&) {}), error,
                         says("can't be read: Permission denied"));
    ::setfsuid(static_cast<uid_t>(own));
    std::filesystem::remove_all(folder.path_of(4));
  }
}

TEST_CASE("a folder that is not a checkpoint is not replaced by one") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  std::filesystem::create_directory(folder.path_of(4));
  write_file(folder.path_of(4) + "/notes", "another program's");
  CHECK_THROWS_MATCHES(save(folder, 4), error,
                       says("exists and is not a checkpoint"));
  CHECK(content(folder.path_of(4) + "/notes") == "another program's");
}

TEST_CASE("parts that were exchanged are refused") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  const auto part = [&](int p) {
    return fmt::format("{}/part-0000{}.safetensors", folder.path_of(4), p);
  };
  const auto first = content(part(0)), second = content(part(1));
  write_file(part(0), second);
  write_file(part(1), first);
  CHECK_FALSE(folder.last_valid([](const std::string&) {}));
}

TEST_CASE("a checkpoint in the folder of another step is refused") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  std::filesystem::rename(folder.path_of(4), folder.path_of(9));
  CHECK_THROWS_MATCHES(
    stored_checkpoint(folder.path_of(9)), error,
    says("is of step 4, but its folder is named for step 9"));
  CHECK_FALSE(folder.last_valid([](const std::string&) {}));
}

TEST_CASE("a part that can't be written is an error that names its folder") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  write_file(at / "all/.step-00000004.one.partial", "a file");
  CHECK_THROWS_MATCHES(folder.write_part(4, 0, part_of(4, 0)), error,
                       says(".step-00000004.one.partial"));
}

TEST_CASE("a damaged checkpoint is refused by name, the one before is taken") {
  const auto damage = [](const std::string& path,
                         const std::function<void(std::string&)>& change) {
    auto bytes = content(path);
    change(bytes);
    write_file(path, bytes);
  };
  const std::string part = "/part-00001.safetensors";
  const std::vector<
    std::tuple<std::string, std::string, std::function<void(std::string&)>>>
    cases{
      {part, "its SHA-256 does not match",
       [](auto& bytes) { bytes.back() ^= 1; }},
      {part, "has 3 bytes; the manifest", [](auto& bytes) { bytes.resize(3); }},
      {"/manifest.json", "is not the JSON",
       [](auto& bytes) {
         bytes.pop_back();
         bytes.pop_back();
       }},
      {"/manifest.json", "twice",
       [](auto& bytes) {
         bytes.replace(bytes.find("part-00001"), 10, "part-00000");
       }},
      {"/manifest.json", "lacks the field 'run'",
       [](auto& bytes) { bytes.replace(bytes.find("\"run\""), 5, "\"ran\""); }},
      {"/manifest.json", "step must be a whole number",
       [](auto& bytes) {
         bytes.replace(bytes.find("\"step\": 2"), 9,
                       "\"step\": 9999999999999999");
       }},
      {"/manifest.json", "not the name of a file",
       [](auto& bytes) {
         bytes.replace(bytes.find("part-00001"), 10, "../../../e");
       }},
    };
  for (const auto& [file, why, change] : cases) {
    CAPTURE(why);
    const prepared_folder prepared;
    const auto& [at, folder] = prepared;
    save(folder, 1);
    save(folder, 2);
    damage(folder.path_of(2) + file, change);
    std::string refused;
    const auto last = folder.last_valid(
      [&](const std::string& sentence) { refused += sentence; });
    CHECK(last == folder.path_of(1));
    CHECK(refused.find(why) != std::string::npos);
    CHECK(refused.find(folder.path_of(2) + file) != std::string::npos);
  }
}

TEST_CASE("process 0 waits for the parts of others, and may give up") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  std::thread other([&] { folder.write_part(3, 1, part_of(3, 1)); });
  folder.write_part(3, 0, part_of(3, 0));
  folder.complete(manifest_of(3), 2, {});
  other.join();
  stored_checkpoint(folder.path_of(3)).verify();
  folder.write_part(4, 0, part_of(4, 0));
  CHECK_THROWS_MATCHES(
    folder.complete(manifest_of(4), 2, {}, [] { return true; }), error,
    says("part 1 was not written"));
  CHECK(folder.steps() == std::vector<std::int64_t>{3});
}
