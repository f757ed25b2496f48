#include "troupe/actors/reduction/collectives.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/mean_gradient.hpp"

namespace troupe {

namespace {

class local_collectives final : public collectives {
 public:
  explicit local_collectives(std::int32_t replicas) : replicas_(replicas) {}

  bool spans_processes() const override { return false; }

  device_stream* stream(const reduce_gradients& first) override {
    if (first.device && !stream_)
      stream_ = first.device->make_stream(stream_priority::high);
    return stream_.get();
  }

  bool all_reduce(std::int64_t, std::int32_t,
                  std::vector<tensor_list>& members) override {
    for (std::size_t i = 0; i < members.front().size(); ++i) {
      tensor_list same;
      for (const auto& tensors : members)
        same.push_back(tensors[i]);
      const auto mean = mean_gradient(same, replicas_);
      for (std::size_t r = 1; r < same.size(); ++r)
        same[r].copy_(mean);
    }
    return true;
  }

 private:
  std::int32_t replicas_;
  std::unique_ptr<device_stream> stream_;  // on the first member's device
};

}  // namespace

bool collectives::on(reduce_part part) {
  fail(error_code::mismatch,
       "a part of stage {}'s gradients came from another process, which has no "
       "member of its group",
       part.stage);
}

std::unique_ptr<collectives> make_local_collectives(std::int32_t replicas) {
  return std::make_unique<local_collectives>(replicas);
}

}  // namespace troupe
