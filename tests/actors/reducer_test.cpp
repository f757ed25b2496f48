// Gradients of replicas are averaged equally within a process and over links.
#include "troupe/actors/reduction/reducer.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>

#include "troupe/actors/reduction/link_collectives.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The parameters have 2, 3 and 1 elements; a missing gradient is undefined.
const std::vector<std::int64_t> sizes = {2, 3, 1};

tensor_list parameters() {
  tensor_list all;
  for (const auto size : sizes)
    all.push_back(at::zeros({size}));
  return all;
}

collective_request request_of(std::int32_t data_rank,
                              const std::vector<float>& values) {
  collective_request request;
  request.serial = 1;
  request.data_rank = data_rank;
  all_reduce work;
  work.parameters = parameters();
  for (std::size_t i = 0; i < values.size(); ++i)
    work.gradients.push_back(values[i] == 0 ? at::Tensor{}
                                            : at::full({sizes[i]}, values[i]));
  request.work = std::move(work);
  return request;
}

reducer_core local_core(std::int32_t replicas) {
  return {make_local_collectives(replicas), static_cast<std::size_t>(replicas)};
}

/// Processes that pass each other's parts on, one at a time.
struct linked_processes {
  explicit linked_processes(std::vector<std::int32_t> owners_of_members,
                            std::int32_t copies_of_stage = 1)
    : owners(std::move(owners_of_members)), copies(copies_of_stage) {
    const auto members = static_cast<std::int32_t>(owners.size());
    for (std::int32_t p = 0; p <= std::ranges::max(owners); ++p) {
      const auto here = static_cast<std::size_t>(std::ranges::count(owners, p));
      cores.emplace_back(std::make_unique<link_collectives>(
                           collective_group{owners, members / copies}, p,
                           [this](std::int32_t receiver, collective_part part) {
                             part.values = part.values.clone();
                             flying.emplace_back(receiver, std::move(part));
                           }),
                         here);
    }
  }

  void take(std::vector<collective_result> some) {
    for (auto& each : some)
      answers.push_back(std::move(each));
  }
  void ask(collective_request request) {
    const auto process = owners[static_cast<std::size_t>(
      request.data_rank * copies + request.owner.copy)];
    take(cores[static_cast<std::size_t>(process)].on(std::move(request)));
  }
  void deliver(std::size_t which) {
    auto [receiver, part] = std::move(flying[which]);
    flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
    take(cores[static_cast<std::size_t>(receiver)].on(std::move(part)));
  }

  std::vector<std::int32_t> owners;
  std::int32_t copies;
  std::vector<reducer_core> cores;
  std::deque<std::pair<std::int32_t, collective_part>> flying;
  std::vector<collective_result> answers;
};

}  // namespace

TEST_CASE("a reducer averages in ascending order, independent of arrival") {
  const std::vector<float> values = {1e8F, 1, -1e8F, 3};
  const auto expected = (((1e8F + 1.0F) - 1e8F) + 3.0F) / 4;
  std::vector<std::int32_t> order = {0, 1, 2, 3};
  do {
    auto reducer = local_core(4);
    std::vector<collective_result> answers;
    for (const auto d : order) {
      CHECK(answers.empty());
      const auto value = values[static_cast<std::size_t>(d)];
      answers = reducer.on(request_of(d, {value, value, value}));
    }
    REQUIRE(answers.size() == 4);
    for (std::int32_t d = 0; d < 4; ++d) {
      const auto& answer = answers[static_cast<std::size_t>(d)];
      CHECK(answer.data_rank == d);
      REQUIRE(answer.gradients.size() == 3);
      for (const auto& each : answer.gradients)
        CHECK(at::equal(each, at::full_like(each, expected)));
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("copies of a stage are added, replicas averaged") {
  const std::vector<float> values = {1e8F, 1, -1e8F, 3};
  const auto expected = (((1e8F + 1.0F) - 1e8F) + 3.0F) / 2;
  const auto request = [&](std::int32_t member) {
    auto part = request_of(member / 2,
                           std::vector<float>(3, values[std::size_t(member)]));
    part.owner.copy = static_cast<std::int8_t>(member % 2);
    return part;
  };
  linked_processes one({0, 0, 0, 0}, 2), four({0, 1, 2, 3}, 2),
    two({0, 0, 1, 1}, 2);
  reducer_core local(make_local_collectives(2), 4);
  std::vector<collective_result> answers;
  for (const auto member : {3, 1, 0, 2}) {
    for (auto* job : {&one, &four, &two})
      job->ask(request(member));
    for (auto& each : local.on(request(member)))
      answers.push_back(std::move(each));
  }
  for (auto* job : {&one, &four, &two}) {
    while (!job->flying.empty())
      job->deliver(0);
    for (auto& each : job->answers)
      answers.push_back(std::move(each));
  }
  REQUIRE(answers.size() == 16);
  for (const auto& answer : answers)
    for (const auto& each : answer.gradients)
      CHECK(at::equal(each, at::full_like(each, expected)));
}

TEST_CASE("a replica that asks a reducer twice is refused") {
  auto reducer = local_core(2);
  CHECK(reducer.on(request_of(1, {1, 1, 1})).empty());
  CHECK_THROWS_MATCHES(reducer.on(request_of(1, {1, 1, 1})), error,
                       MessageMatches(ContainsSubstring("asked twice")));
  CHECK_THROWS_MATCHES(
    reducer.on(collective_part{1, 3, 0, 0, {}}), error,
    MessageMatches(ContainsSubstring("has no member of its group")));
}

TEST_CASE("a missing gradient counts as zeros, unless all replicas lack it") {
  const auto owners =
    GENERATE(std::vector<std::int32_t>{0, 0}, std::vector<std::int32_t>{0, 1});
  linked_processes job(owners);
  job.ask(request_of(0, {4, 0, 0}));
  job.ask(request_of(1, {2, 6, 0}));
  while (!job.flying.empty())
    job.deliver(0);
  auto reducer = local_core(2);
  reducer.on(request_of(0, {4, 0, 0}));
  const auto alone = reducer.on(request_of(1, {2, 6, 0}));
  for (const auto& answers : {job.answers, alone}) {
    REQUIRE(answers.size() == 2);
    for (const auto& answer : answers) {
      const auto& gradients = answer.gradients;
      REQUIRE(gradients.size() == 3);
      CHECK(at::equal(gradients[0], at::full({2}, 3.0F)));
      CHECK(at::equal(gradients[1], at::full({3}, 3.0F)));
      CHECK_FALSE(gradients[2].defined());
    }
  }
}

TEST_CASE("parts over links in any order give the bits of one process") {
  std::mt19937 random(GENERATE(Catch::Generators::range(0U, 40U)));
  const auto draw = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  std::vector<std::int32_t> owners(2 + draw(4));
  for (std::size_t d = 0; d < owners.size(); ++d)
    owners[d] = static_cast<std::int32_t>(draw(3));
  linked_processes job(owners);
  for (std::int64_t serial = 1; serial <= 3; ++serial) {
    std::vector<collective_request> requests;
    for (std::int32_t d = 0; d < static_cast<std::int32_t>(owners.size());
         ++d) {
      std::vector<float> values;
      for (std::size_t i = 0; i < sizes.size(); ++i)
        values.push_back(
          draw(4) == 0 ? 0.0F : 0.1F * static_cast<float>(1 + draw(1000)));
      requests.push_back(request_of(d, values));
    }
    auto reducer = local_core(static_cast<std::int32_t>(owners.size()));
    std::vector<collective_result> expected;
    for (auto request : requests) {
      for (auto& each : gradients_of(request.work)->gradients)
        each = each.defined() ? each.clone() : each;
      expected = reducer.on(std::move(request));
    }
    std::ranges::shuffle(requests, random);
    job.answers.clear();
    while (!requests.empty() || !job.flying.empty())
      if (!requests.empty() && (job.flying.empty() || draw(2) == 0)) {
        job.ask(std::move(requests.back()));
        requests.pop_back();
      } else {
        job.deliver(draw(job.flying.size()));
      }
    REQUIRE(job.answers.size() == owners.size());
    for (const auto& answer : job.answers) {
      const auto& expected_gradients =
        expected[static_cast<std::size_t>(answer.data_rank)].gradients;
      const auto& gradients = answer.gradients;
      REQUIRE(gradients.size() == expected_gradients.size());
      for (std::size_t i = 0; i < expected_gradients.size(); ++i) {
        REQUIRE(gradients[i].defined() == expected_gradients[i].defined());
        if (expected_gradients[i].defined())
          CHECK(at::equal(gradients[i], expected_gradients[i]));
      }
    }
  }
}

namespace {

/// Random values that the members of a group hold.
struct drawn_group {
  explicit drawn_group(std::mt19937& random) {
    const auto draw = [&](std::size_t count) { return random() % count; };
    shards = 2 + std::int32_t(draw(2));
    replicas = shards * std::int32_t(1 + draw(2));
    copies = 1 + std::int32_t(draw(2));
    std::vector<std::int64_t> elements;
    for (std::size_t i = 0; i < 1 + draw(4); ++i)
      elements.push_back(std::int64_t(draw(3) == 0 ? draw(2) : draw(40)));
    const auto multiple = 1 + std::int64_t(draw(3));
    layout = std::make_shared<const shard_layout>(
      draw(2) == 0
        ? shard_layout(elements, shards, multiple)
        : shard_layout::of_whole(elements, std::vector(elements.size(), 1.0),
                                 shards, multiple));
    for (std::int32_t m = 0; m < replicas * copies; ++m)
      owners.push_back(std::int32_t(draw(3)));
  }

  collective_request request(std::int32_t member, collective_work work) const {
    collective_request result;
    result.serial = 1;
    result.data_rank = member / copies;
    result.owner.copy = static_cast<std::int8_t>(member % copies);
    result.work = std::move(work);
    return result;
  }
  collective_request reduction(std::int32_t member) const {
    reduce_scatter work;
    work.layouts = {layout};
    for (const auto size : layout->sizes()) {
      work.parameters.push_back(at::zeros({size}));
      work.gradients.push_back(member % 3 == 1 ? at::Tensor{}
                                               : at::randn({size}));
    }
    return request(member, std::move(work));
  }
  collective_request gather(std::int32_t member) const {
    return request(member, all_gather{.shards = {at::randn({layout->length(
                                        member / copies % shards)})},
                                      .rows = {at::zeros({layout->padded()})},
                                      .layouts = {layout}});
  }
  at::Tensor without_padding(const at::Tensor& row) const {
    tensor_list parts{row.narrow(0, 0, 0)};
    for (std::int32_t shard = 0; shard < shards; ++shard)
      for (const auto& piece : layout->pieces(shard))
        parts.push_back(row.narrow(0, piece.row, piece.count));
    return at::cat(parts);
  }

  std::int32_t shards, replicas, copies;
  std::shared_ptr<const shard_layout> layout;
  std::vector<std::int32_t> owners;
};

collective_request copy_of(collective_request request) {
  auto* const gathered = std::get_if<all_gather>(&request.work);
  if (gathered)
    gathered->rows[0] = gathered->rows[0].clone();
  for (auto& each :
       gathered ? gathered->shards : gradients_of(request.work)->gradients)
    each = each.defined() ? each.clone() : each;
  return request;
}

}  // namespace

TEST_CASE("shards over links, in any order, have the bits of one process") {
  std::mt19937 random(GENERATE(Catch::Generators::range(0U, 60U)));
  const drawn_group group(random);
  const auto members = std::int32_t(group.owners.size());
  linked_processes job(group.owners, group.copies);
  reducer_core local(make_local_collectives(group.replicas),
                     std::size_t(members));
  for (int call = 0; call < 4; ++call) {
    const bool gathers = call % 2 == 1;
    std::vector<collective_request> requests;
    std::vector<at::Tensor> rows, expected_rows;
    std::vector<collective_result> expected;
    for (std::int32_t m = 0; m < members; ++m) {
      requests.push_back(gathers ? group.gather(m) : group.reduction(m));
      auto same = copy_of(requests.back());
      if (gathers) {
        rows.push_back(std::get<all_gather>(requests.back().work).rows[0]);
        expected_rows.push_back(std::get<all_gather>(same.work).rows[0]);
      }
      expected = local.on(std::move(same));
    }
    job.answers.clear();
    std::ranges::shuffle(requests, random);
    while (!requests.empty() || !job.flying.empty())
      if (!requests.empty() && (job.flying.empty() || random() % 2 == 0)) {
        job.ask(std::move(requests.back()));
        requests.pop_back();
      } else {
        job.deliver(random() % job.flying.size());
      }
    REQUIRE(job.answers.size() == std::size_t(members));
    for (std::size_t i = 0; i < rows.size(); ++i)
      CHECK(at::equal(group.without_padding(rows[i]),
                      group.without_padding(expected_rows[i])));
    for (const auto& answer : job.answers) {
      const auto expected_answer =
        std::ranges::find_if(expected, [&](const auto& each) {
          return each.data_rank == answer.data_rank
                 && each.owner.copy == answer.owner.copy;
        });
      REQUIRE(answer.gradients.size() == expected_answer->gradients.size());
      for (std::size_t i = 0; i < answer.gradients.size(); ++i)
        CHECK(at::equal(answer.gradients[i], expected_answer->gradients[i]));
    }
  }
}

TEST_CASE("a member that makes another collective is named, with both sides") {
  std::mt19937 random(1);
  const drawn_group group(random);
  const auto require_both = [](const std::function<void()>& work) {
    CHECK_THROWS_MATCHES(
      work(), error,
      MessageMatches(ContainsSubstring("an all-gather of parameters")
                     && ContainsSubstring("a reduce-scatter of gradients")));
  };
  reducer_core local(make_local_collectives(group.replicas), 2);
  local.on(group.reduction(0));
  require_both([&] { local.on(group.gather(1)); });
  linked_processes job({0, 1, 0, 1}, 1);
  drawn_group two(random);
  two.shards = two.replicas = 4;
  two.copies = 1;
  two.layout =
    std::make_shared<const shard_layout>(std::vector<std::int64_t>{5}, 4, 1);
  for (const auto member : {0, 2})
    job.ask(two.reduction(member));
  for (const auto member : {1, 3})
    job.ask(two.gather(member));
  require_both([&] {
    while (!job.flying.empty())
      job.deliver(0);
  });
}

TEST_CASE("a part that belongs elsewhere, or comes twice, is refused") {
  link_collectives calls({{0, 1}, 2}, 0,
                         [](std::int32_t, const collective_part&) {});
  const auto part = [](std::int32_t data_rank, std::int32_t piece) {
    return collective_part{1, 0, data_rank, piece, at::zeros({1})};
  };
  for (const auto& wrong : {part(1, 1), part(1, 2), part(2, 0), part(-2, 0)})
    CHECK_THROWS_MATCHES(calls.on(wrong), error,
                         MessageMatches(ContainsSubstring("elsewhere")));
  calls.on(part(1, 0));
  CHECK_THROWS_MATCHES(calls.on(part(1, 0)), error,
                       MessageMatches(ContainsSubstring("twice")));
  CHECK_THROWS_AS(
    calls.on({.member = 1, .values = at::ones({1}), .absent = {2, 1}}), error);
  calls.on(part(none, 1));
  CHECK_THROWS_MATCHES(calls.on(part(none, 1)), error,
                       MessageMatches(ContainsSubstring("twice")));
}
