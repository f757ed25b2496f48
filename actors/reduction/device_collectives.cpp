#include "troupe/actors/reduction/device_collectives.hpp"

#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

class device_collectives final : public collectives {
 public:
  device_collectives(std::shared_ptr<device_links> links, std::int32_t stage)
    : links_(std::move(links)), stage_(stage) {}

  bool spans_processes() const override { return true; }
  device_stream* stream(const collective_request&) override {
    return &links_->reduction_stream(stage_);
  }
  bool run(std::int64_t, std::vector<collective_request>& members) override {
    for (auto& each : members) {
      if (each.work.kind != collective_kind::all_reduce)
        fail(error_code::internal, "{} can't go from device to device",
             to_text(each.work.kind));
      links_->all_reduce(stage_, each.work.tensors);
    }
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
