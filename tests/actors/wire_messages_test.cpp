#include "troupe/actors/job/wire_messages.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "../field_bytes.hpp"
#include "../monitors/live/sample_events.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

template <class Message>
Message there_and_back(const Message& message) {
  return std::get<Message>(read_control(to_frame(message)));
}

rank_done report() {
  return {7,
          1,
          2,
          {{7, {3, 1}, {{{"loss", 1.5, 4}}, {}, 9, {{"loss", 4}}}}},
          {{1, 2, 3, 4, 5}},
          {},
          6};
}

tensors_event sample_event() {
  tensor_record record;
  record.kind = tensor_kind::activation;
  record.owner =
    std::make_shared<const tensor_owner>(tensor_owner{"blocks.1.mlp", "mlp"});
  record.statistics.count = 5;
  log2_histogram bins{};
  bins[3] = 8;
  record.statistics.histogram = bins;
  record.tensor = at::ones({2, 3});
  auto without = record;
  without.tensor = at::Tensor{};
  return {{.step = 4, .microbatch = 1}, true, 8, {record, without}};
}

}  // namespace

TEST_CASE("control messages arrive as they were sent") {
  const std::vector<subscription> tensors{{.names = "blocks.*", .every = 4}};
  const remote_begin begin{
    3,
    {.step = 2,
     .phase = phase::validation,
     .learning_rate = 1e-3,
     .loss_scale = 2,
     .first_microbatch = 5,
     .skip_update = true},
    {.interest = std::make_shared<tensor_interest>(tensors),
     .tells_memory = true,
     .epoch = 1,
     .reading = step_reading::watched},
    77,
    {"1f1b", 4, 8, 1, 16, 2, true}};
  const auto begun = there_and_back(begin);
  CHECK(difference(begin, begun).empty());
  CHECK((begun.wishes.interest->subscriptions() == tensors));
  CHECK(begun.wishes.tells_memory);
  CHECK(begun.wishes.epoch == 1);
  CHECK(begun.wishes.reading == step_reading::watched);
  CHECK(there_and_back(stage_powers{1, 2, {3, 4}}).powers
        == std::vector<double>{3, 4});
  CHECK(there_and_back(stage_powers{.serial = 1, .hit = true}).hit);
  const auto done = there_and_back(report());
  CHECK(done.rank == 2);
  CHECK(done.stages.at(0).result.losses.at(0).name == "loss");
  CHECK(done.stages.at(0).result.equal_counts.at(0).second == 4);
  CHECK(done.ops.at(0).end == 5);
  CHECK(there_and_back(op_failure{{.rank = 3}, "1F2", "why"}).op == "1F2");
  remote_outcome outcome{4, {}, "it failed"};
  outcome.event.gradient_norm = 0.5;
  outcome.runs_again = true;
  CHECK(there_and_back(outcome).event.gradient_norm == 0.5);
  CHECK(there_and_back(outcome).runs_again);
}

TEST_CASE("events arrive with their tensors") {
  const auto arrived =
    std::get<event>(read_control(to_frame(event(sample_event()))));
  const auto& op = std::get<tensors_event>(arrived);
  REQUIRE(op.tensors.size() == 2);
  CHECK(op.source.step == 4);
  CHECK(op.tensors[0].owner->name == "blocks.1.mlp");
  CHECK(op.tensors[0].statistics == sample_event().tensors[0].statistics);
  CHECK(at::equal(op.tensors[0].tensor, at::ones({2, 3})));
  CHECK_FALSE(op.tensors[1].tensor.defined());
}

TEST_CASE("tensors of stages and parts of gradients arrive as they were sent") {
  stage_tensors message;
  message.header.from_stage = 1;
  message.header.key.microbatch = 5;
  message.header.sent = 99;
  message.tensors = {at::arange(6).view({2, 3}).transpose(0, 1), at::Tensor{}};
  const auto arrived = read_stage_tensors(to_frame(message));
  CHECK(arrived.header.key.microbatch == 5);
  CHECK(arrived.header.sent == 99);
  CHECK(arrived.tensors.at(0).sizes() == at::IntArrayRef{3, 2});
  CHECK(at::equal(arrived.tensors.at(0), message.tensors[0]));
  CHECK_FALSE(arrived.tensors.at(1).defined());
  const auto part = read_collective_part(to_frame({1, 2, 3, 4, at::ones({7})}));
  CHECK(part.piece == 4);
  CHECK(part.values.numel() == 7);
}

TEST_CASE("mutated messages are read or refused, never worse") {
  const std::vector<frame> good{to_frame(report()),
                                to_frame(event(sample_event())),
                                to_frame(remote_begin{})};
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    auto bad = good[random() % good.size()];
    for (auto changes = random() % 4 + 1; changes > 0; --changes)
      bad.head[random() % bad.head.size()] = static_cast<char>(random());
    if (random() % 4 == 0)
      bad.head.resize(random() % bad.head.size());
    try {
      read_control(std::move(bad));
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
    }
  }
}

TEST_CASE("messages with disturbed fields are read whole or refused") {
  std::mt19937_64 random(7);
  std::vector<control_message> good{
    remote_begin{
      .wishes = {.interest = std::make_shared<tensor_interest>(
                   std::vector<subscription>{{.names = "a.*", .every = 4}})}},
    stage_powers{1, 2, {3, 4}},
    norm_verdict{1, 2, 0.5},
    report(),
    remote_outcome{4, {}, "why", run_end{}},
    op_failure{{.rank = 3}, "1F2", "why"},
    save_run{5},
    finish_run{{run_end::kind::success, "why"}}};
  for (auto& each : testing::sample_events(random))
    if (!std::holds_alternative<tensors_event>(each))
      good.emplace_back(std::move(each));
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto& sent = good[random() % good.size()];
    const auto kind = to_frame(sent).head.substr(0, 1);
    const auto part = std::visit(
      [&](const auto& content) {
        return testing::disturbed(testing::fields_in(content), random).joined();
      },
      sent);
    try {
      const auto read = read_control({frame_type::control, kind + part, {}});
      CHECK(to_frame(read).head == kind + part);
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
      ++refused;
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("an envelope with disturbed fields is read whole or refused") {
  envelope good;
  good.by_device = true;
  good.tensors = {{at::kFloat, {2, 3}}};
  const auto all = testing::fields_in(good);
  REQUIRE(all.joined() == to_frame(stage_tensors{good, {}}).head);
  std::mt19937_64 random(9);
  for (int i = 0; i < 5000; ++i) {
    const auto head = testing::disturbed(all, random).joined();
    try {
      const auto read = read_stage_tensors({frame_type::tensors, head, {}});
      CHECK(to_frame(read).head == head);
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
    }
  }
}

TEST_CASE("every part of a message is refused, and names what is missing") {
  const auto whole = to_frame(report());
  for (std::size_t length = 0; length < whole.head.size(); ++length)
    CHECK_THROWS_AS(
      read_control({frame_type::control, whole.head.substr(0, length), {}}),
      error);
  CHECK_THROWS_MATCHES(
    read_control({frame_type::control, whole.head.substr(0, 1 + 8), {}}), error,
    MessageMatches(ContainsSubstring("at its field 'data_rank'")));
}

TEST_CASE("subscriptions of all kinds reach the other processes") {
  const std::vector<subscription> all{
    {.ops = true,
     .tensors = tensor_kind::weight | tensor_kind::loss,
     .needs = tensor_needs::handle | tensor_needs::histogram,
     .sample = {0.01, 7},
     .names = "a,b",
     .last = 9,
     .exempt = true},
    {.needs = tensor_needs::extremes}};
  remote_begin begin;
  begin.wishes.interest = std::make_shared<tensor_interest>(all);
  CHECK((there_and_back(begin).wishes.interest->subscriptions() == all));
}

TEST_CASE("a step that differs from the leader's is reported with its field") {
  remote_begin leader, own;
  CHECK(difference(leader, own).empty());
  leader.serial = 1;
  CHECK_THAT(difference(leader, own), ContainsSubstring("steps so far"));
  leader.plan = 1;
  CHECK_THAT(difference(leader, own), ContainsSubstring("hash of the plan"));
  leader.shape = {.schedule = "gpipe", .microbatches = 8};
  own.shape = {.schedule = "gpipe", .microbatches = 4};
  CHECK(difference(leader, own)
        == "microbatches: 8 in process 0, 4 in the other");
  own.shape.schedule = "1f1b";
  CHECK(difference(leader, own)
        == "schedule: gpipe in process 0, 1f1b in the other");
  leader.decision.learning_rate = 0.5;
  CHECK(difference(leader, own)
        == "learning_rate: 0.5 in process 0, 0 in the other");
  own.decision.phase = phase::validation;
  CHECK(difference(leader, own)
        == "phase: training in process 0, validation in the other");
}
