// Launchers' descriptions of the first host of a job.
#include "parse.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto kind = testing::take_choice(text) % 2;
    const auto host =
      kind == 0 ? first_of_node_list(text) : address_of_mpirun(text);
    testing::require(!host || (!host->empty() && host->size() < 300));
    names_loopback(host.value_or(""));
    testing::require(port_of_job(text) >= 20000);
  });
}
