
#include <ATen/ops/tensor.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "../../run_program.hpp"
#include "../../temporary_folder.hpp"
#include "event_file_reader.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"
#include "troupe/monitors/sinks/tensorboard_sink.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

tensor_statistics measured(std::vector<double> values) {
  return measure(at::tensor(values), true);
}

/// Writes three steps, as a run may.
void write_run(const std::string& folder) {
  const auto sink = tensorboard_sink(folder);
  auto record = record_of(1, {{"loss", 2.5}, {"gap/grads/fc/max", 1e-3}});
  record.histograms = {{"gap/grads/fc", measured({0, 0, 1, -1.5, 3, -8})}};
  sink->write(record);
  sink->write(alert_of(1, "m", "left out"));
  sink->write(record_of(2, {{"loss", std::nan("")}, {"big", 1e300}}));
  record = record_of(3, {{"loss", .25}}, phase::validation);
  record.histograms = {{"zeros", measured({0, 0})}, {"none", measured({})}};
  sink->write(record);
}

std::string only_file(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return files->path().string();
}

std::string python() {
  const auto* chosen = std::getenv("TROUPE_PYTHON");
  return chosen ? chosen : "PYTHONPATH=" TROUPE_READERS "/python python3";
}

void require_tensorboard() {
  const auto probe = python() + " -c 'import tensorboard'";
  if (run_program(probe).exit_code != 0)
    SKIP("no tensorboard; TROUPE_PYTHON names a python that has it");
}

program_result read_by_tensorboard(const std::string& folder) {
  return run_program(python()
                     + " " TROUPE_SOURCE_DIR
                       "/tests/monitors/sinks/read_tensorboard.py "
                     + folder);
}

}  // namespace

TEST_CASE("an event file has records, check sums and fields to the byte") {
  // CRC-32C's check value, masked as TensorBoard does.
  CHECK(plain_masked_crc("123456789")
        == (0xe3069283 >> 15 | 0xe3069283 << 17) + 0xa282ead8);
  const temporary_folder folder;
  const auto before = std::time(nullptr);
  write_run(folder / "runs/a");
  const auto path = only_file(folder / "runs/a");
  CHECK(std::filesystem::path(path).filename().string().starts_with(
    "events.out.tfevents."));
  const auto records = records_of(content(path));
  REQUIRE(records.size() == 4);
  auto first = fields_of(records[0]);
  CHECK(first[3].at(0) == "brain.Event:2");
  const auto time = numbers_of<double>(first[1].at(0)).at(0);
  CHECK(time >= static_cast<double>(before));
  CHECK(time < static_cast<double>(before) + 100);

  auto event = fields_of(records[1]);
  CHECK(numbers_of<std::int64_t>(event[2].at(0)).at(0) == 1);
  auto values = fields_of(event[5].at(0))[1];
  REQUIRE(values.size() == 3);
  CHECK(fields_of(values[0])[1].at(0) == "loss");
  CHECK(numbers_of<float>(fields_of(values[0])[2].at(0)).at(0) == 2.5f);
  CHECK(fields_of(values[1])[1].at(0) == "gap/grads/fc/max");
  CHECK(numbers_of<float>(fields_of(values[1])[2].at(0)).at(0) == 1e-3f);
}

TEST_CASE("a histogram has a bucket of zeros and one a power of two") {
  auto record = record_of(1, {});
  record.histograms = {{"w", measured({0, 0, 1, -1.5, 3, -8})}};
  auto event = fields_of(summary_event(12.5, record));
  auto value = fields_of(fields_of(event[5].at(0))[1].at(0));
  CHECK(value[1].at(0) == "w");
  auto histogram = fields_of(value[5].at(0));
  const auto number = [&](int field) {
    return numbers_of<double>(histogram[field].at(0)).at(0);
  };
  CHECK(number(1) == 0);
  CHECK(number(2) == 8);
  CHECK(number(3) == 6);
  CHECK(std::abs(number(4) - -5.5) < 1e-12);
  CHECK(std::abs(number(5) - 76.25) < 1e-12);
  CHECK(numbers_of<double>(histogram[6].at(0))
        == std::vector<double>{1, 2, 4, 8, 16});
  CHECK(numbers_of<double>(histogram[7].at(0))
        == std::vector<double>{2, 2, 1, 0, 1});
}

TEST_CASE("a tag tells the phase of an evaluation, once") {
  const auto record =
    record_of(1, {{"validation/loss", 2}, {"gap/x", 3}}, phase::validation);
  std::vector<std::string> tags;
  auto event = fields_of(summary_event(12.5, record));
  const auto values = fields_of(event[5].at(0))[1];
  for (const auto& value : values)
    tags.push_back(fields_of(value)[1].at(0));
  CHECK(tags
        == std::vector<std::string>{"validation/loss", "validation/gap/x"});
}

TEST_CASE("the settings of a run are a text and hyperparameters") {
  auto event = fields_of(settings_event(
    12.5, {{"lr", "0.001"}, {"schedule", "\"1f1b\""}, {"plain", "true"}}));
  auto values = fields_of(event[5].at(0))[1];
  REQUIRE(values.size() == 2);
  auto text = fields_of(values[0]);
  CHECK(text[1].at(0) == "config");
  CHECK(fields_of(text[8].at(0))[8].at(0)
        == "    lr = 0.001\n    schedule = \"1f1b\"\n    plain = true\n");
  CHECK(fields_of(fields_of(text[9].at(0))[1].at(0))[1].at(0) == "text");
  auto session = fields_of(values[1]);
  CHECK(session[1].at(0) == "_hparams_/session_start_info");
  auto plugin = fields_of(fields_of(session[9].at(0))[1].at(0));
  CHECK(plugin[1].at(0) == "hparams");
  auto start = fields_of(fields_of(plugin[2].at(0))[3].at(0));
  REQUIRE(start[1].size() == 3);
  auto rate = fields_of(start[1].at(0));
  CHECK(rate[1].at(0) == "lr");
  CHECK(numbers_of<double>(fields_of(rate[2].at(0))[2].at(0)).at(0) == 0.001);
  CHECK(fields_of(fields_of(start[1].at(1))[2].at(0))[3].at(0) == "1f1b");
}

TEST_CASE("settings pass through joined sinks") {
  const temporary_folder folder;
  join({callback_sink({}), tensorboard_sink(folder / "runs")})
    ->describe({{"lr", "1"}});
  CHECK(records_of(content(only_file(folder / "runs"))).size() == 2);
}

TEST_CASE("two sinks of one folder have a file each; other troubles are io") {
  const temporary_folder folder;
  const auto a = tensorboard_sink(folder / "runs");
  const auto b = tensorboard_sink(folder / "runs");
  const std::filesystem::directory_iterator files(folder / "runs");
  CHECK(std::distance(begin(files), end(files)) == 2);
  const auto file = folder.write("file", "");
  CHECK_THROWS_AS(tensorboard_sink(file + "/runs"), error);
}

TEST_CASE("TensorBoard itself reads it") {
  require_tensorboard();
  const temporary_folder folder;
  write_run(folder / "runs/a");
  const auto read = read_by_tensorboard(folder / "runs/a");
  CHECK(read.exit_code == 0);
  CHECK(read.output
        == "big 2 inf\n"
           "gap/grads/fc/max 1 0.0010000000474974513\n"
           "loss 1 2.5\n"
           "loss 2 nan\n"
           "validation/loss 3 0.25\n"
           "gap/grads/fc 1 num=6 min=0 max=8 sum=-5.5 [0,1):2 [1,2):2 [2,4):1 "
           "[4,8):0 [8,16):1\n"
           "validation/zeros 3 num=2 min=0 max=0 sum=0 [0,0):2\n");
}

TEST_CASE("TensorBoard reads the settings of a run") {
  require_tensorboard();
  const temporary_folder folder;
  tensorboard_sink(folder / "runs")->describe({{"lr", "0.5"}});
  const auto run =
    run_program(python()
                + " " TROUPE_SOURCE_DIR
                  "/tests/monitors/sinks/read_tensorboard_settings.py "
                + (folder / "runs"));
  CHECK(run.output == "config: lr = 0.5\nlr 0.5\n");
}

TEST_CASE("TensorBoard shows the steps of a resumed run once") {
  require_tensorboard();
  const temporary_folder folder;
  const auto record = [&](std::int64_t resumed, int first, int last) {
    const auto sink = tensorboard_sink(folder / "runs", resumed);
    for (int step = first; step <= last; ++step)
      sink->write(record_of(step, {{"loss", step + 0.5 * (resumed > 0)}}));
  };
  record(0, 1, 4);
  record(2, 3, 5);
  CHECK(read_by_tensorboard(folder / "runs").output
        == "loss 1 1.0\nloss 2 2.0\nloss 3 3.5\nloss 4 4.5\nloss 5 5.5\n");
}
