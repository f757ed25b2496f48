#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

#include <thread>

#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/device/tensor.hpp"

using namespace troupe;

TEST_CASE("tensors are described by dtype and shape") {
  CHECK(describe(at::ones({2, 3})) == "Float[2, 3]");
  CHECK(describe(tensor_list{at::zeros({1}, at::kLong), {}})
        == "(Long[1], undefined)");
}

TEST_CASE("equal bytes have equal hashes") {
  CHECK(content_hash(at::ones({4})) == content_hash(at::ones({4})));
  CHECK(content_hash(at::ones({4})) != content_hash(at::zeros({4})));
}

TEST_CASE("memory is read from the system") {
  CHECK(resident_bytes() > 1'000'000);
  CHECK(peak_resident_bytes() >= resident_bytes());
  CHECK(physical_bytes() >= resident_bytes());
}

TEST_CASE("intra-op threads are set for the calling thread") {
  int inside = 0;
  std::thread worker([&] {
    set_intra_op_threads(1);
    inside = at::get_num_threads();
  });
  worker.join();
  CHECK(inside == 1);
}

TEST_CASE("a scope that computes gives the thread its settings back") {
  const auto before = at::get_num_threads();
  const auto tiny = at::full({8}, 1e-39F);
  int within = 0, after = 0, later = 0;
  at::Tensor flushed, kept;
  std::thread([&] {
    set_intra_op_threads(3);
    {
      const compute_scope computes(1);
      within = at::get_num_threads();
      flushed = tiny * 1;
    }
    after = at::get_num_threads();
    kept = tiny * 1;
    std::thread([&] { later = at::get_num_threads(); }).join();
  }).join();
  set_intra_op_threads(before);
  CHECK(within == 1);
  CHECK(flushed.eq(0).all().item<bool>());
  CHECK(after == 3);
  CHECK(kept.eq(tiny).all().item<bool>());
  CHECK(later == 3);
}

TEST_CASE("a worker keeps its intra-op threads, whatever another one sets") {
  const auto before = at::get_num_threads();
  int inside = 0;
  std::thread worker([&] {
    set_intra_op_threads(3);
    std::thread([] { set_intra_op_threads(1); }).join();
    inside = at::get_num_threads();
  });
  worker.join();
  CHECK(inside == 3);
  set_intra_op_threads(before);
}
