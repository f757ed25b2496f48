#include <ATen/Parallel.h>
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
