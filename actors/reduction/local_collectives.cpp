#include "troupe/actors/reduction/collectives.hpp"
#include "troupe/base/error.hpp"

namespace troupe {

namespace {

class local_collectives final : public collectives {
 public:
  bool spans_processes() const override { return false; }

  device_stream* stream(const reduce_gradients& first) override {
    if (first.device && !stream_)
      stream_ = first.device->make_stream(stream_priority::high);
    return stream_.get();
  }

  bool all_reduce(std::int64_t, std::int32_t,
                  std::vector<tensor_list>& replicas) override {
    const auto count = static_cast<double>(replicas.size());
    for (std::size_t i = 0; i < replicas.front().size(); ++i) {
      auto& mean = replicas.front()[i];
      for (std::size_t r = 1; r < replicas.size(); ++r)
        mean.add_(replicas[r][i].to(mean.device()));
      mean.div_(count);
      for (std::size_t r = 1; r < replicas.size(); ++r)
        replicas[r][i].copy_(mean);
    }
    return true;
  }

 private:
  std::unique_ptr<device_stream> stream_;  // on the first replica's device
};

}  // namespace

bool collectives::on(reduce_part part) {
  fail(error_code::mismatch,
       "a part of stage {}'s gradients came from another process, which has no "
       "replica of it",
       part.stage);
}

std::unique_ptr<collectives> make_local_collectives() {
  return std::make_unique<local_collectives>();
}

}  // namespace troupe
