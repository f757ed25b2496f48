#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>

#include "gpu.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/communicator_watch.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

struct one_rank {
  std::unique_ptr<accelerator> gpu = first_gpu();
  std::unique_ptr<device_stream> stream = gpu->make_stream();
  std::unique_ptr<communicator> edge = gpu->make_communicator(
    {.id = gpu->make_communicator_id(), .name = "edge 0->0"});

  at::Tensor full(double value) {
    const auto scope = stream->enter();
    return at::full({1000}, value, at::device(stream->device()));
  }

  void send_to_itself(const at::Tensor& from, const at::Tensor& to) {
    const std::array both{
      transfer{.kind = transfer_kind::send, .input = from, .peer = 0},
      transfer{.kind = transfer_kind::receive, .output = to, .peer = 0}};
    edge->enqueue(both, *stream);
  }

  /// The first transfer over an edge connects it, and may wait for the device.
  void connect() {
    send_to_itself(full(0), full(0));
    stream->drain();
  }
};

}  // namespace

TEST_CASE("one rank sends to itself within a group, behind its stream's work") {
  one_rank rank;
  rank.connect();
  const auto from = rank.full(1), to = rank.full(0);
  delay(*rank.gpu, *rank.stream, 0.1);
  {
    const auto scope = rank.stream->enter();
    from.fill_(5);
  }
  rank.send_to_itself(from, to);
  const auto sent = rank.stream->record();
  CHECK_FALSE(sent->reached());
  sent->wait();
  CHECK(at::equal(to.cpu(), at::full({1000}, 5.0)));
}

TEST_CASE("collectives of one rank return their input") {
  one_rank rank;
  const auto from = rank.full(3);
  for (const auto kind : {transfer_kind::broadcast, transfer_kind::reduce,
                          transfer_kind::all_reduce, transfer_kind::all_gather,
                          transfer_kind::reduce_scatter}) {
    const auto to = rank.full(0);
    const transfer one{.kind = kind, .input = from, .output = to, .peer = 0};
    rank.edge->enqueue({&one, 1}, *rank.stream);
    rank.stream->drain();
    CHECK(at::equal(to.cpu(), at::full({1000}, 3.0)));
  }
}

TEST_CASE("transfers that do not fit are refused before they are made") {
  one_rank rank;
  const auto tensor = rank.full(1);
  const auto refused = [&](const transfer& wrong, const char* why) {
    CHECK_THROWS_MATCHES(
      rank.edge->enqueue({&wrong, 1}, *rank.stream), error,
      MessageMatches(ContainsSubstring("edge 0->0") && ContainsSubstring(why)));
  };
  refused({.kind = transfer_kind::send, .input = tensor, .peer = 1},
          "no rank 1");
  refused({.kind = transfer_kind::send, .input = at::zeros({3}), .peer = 0},
          "not on cuda:0");
  refused({.kind = transfer_kind::receive, .peer = 0}, "no output");
  refused({.kind = transfer_kind::all_reduce,
           .input = tensor,
           .output = tensor.narrow(0, 0, 10)},
          "does not fit");
  rank.edge->abort();
  refused(
    {.kind = transfer_kind::all_reduce, .input = tensor, .output = tensor},
    "has ended");
}

TEST_CASE("a watch names the call that waits for a slow device") {
  one_rank rank;
  rank.connect();
  const auto from = rank.full(1), to = rank.full(0);
  communicator_watch watch{std::chrono::milliseconds{50}};
  const auto begin = std::chrono::steady_clock::now();
  delay(*rank.gpu, *rank.stream, 0.5);
  rank.send_to_itself(from, to);
  watch.note("send of 0F0", rank.stream->record(), begin);
  const auto stuck = watch.look(begin + std::chrono::milliseconds{100});
  REQUIRE(stuck);
  CHECK(stuck->call == "send of 0F0");
  rank.stream->drain();
  CHECK_FALSE(watch.look(begin + std::chrono::milliseconds{100}));
}

TEST_CASE("a rank whose peers never come reports it in time") {
  const auto gpu = first_gpu();
  CHECK_THROWS_MATCHES(
    gpu->make_communicator({.id = gpu->make_communicator_id(),
                            .size = 2,
                            .name = "edge 0->1",
                            .time_out = 1}),
    error, MessageMatches(ContainsSubstring("edge 0->1: joining as 0 of 2")));
}
