#include "troupe/monitors/sinks/crc32c.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace troupe;

TEST_CASE("check sums are those of RFC 3720 B.4") {
  std::string ascending, descending;
  for (char i = 0; i < 32; ++i) {
    ascending += i;
    descending.insert(descending.begin(), i);
  }
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c(ascending) == 0x46dd794e);
  CHECK(crc32c(descending) == 0x113fdb5c);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c("") == 0);
}
