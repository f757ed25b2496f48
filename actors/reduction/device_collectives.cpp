#include "troupe/actors/reduction/device_collectives.hpp"

#include <utility>

namespace troupe {

namespace {

class device_collectives final : public collectives {
 public:
  device_collectives(std::shared_ptr<device_links> links, std::int32_t stage)
    : links_(std::move(links)), stage_(stage) {}

  bool spans_processes() const override { return true; }
  device_stream* stream(const reduce_gradients&) override {
    return &links_->reduction_stream(stage_);
  }
  bool all_reduce(std::int64_t, std::int32_t stage,
                  std::vector<tensor_list>& members) override {
    for (const auto& tensors : members)
      links_->all_reduce(stage, tensors);
    return true;
  }

 private:
  std::shared_ptr<device_links> links_;
  std::int32_t stage_;
};

}  // namespace

std::unique_ptr<collectives> make_device_collectives(
  std::shared_ptr<device_links> links, std::int32_t stage) {
  return std::make_unique<device_collectives>(std::move(links), stage);
}

}  // namespace troupe
