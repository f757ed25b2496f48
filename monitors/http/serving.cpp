#include "troupe/monitors/http/serving.hpp"

#include "troupe/monitors/http/http_site.hpp"

namespace troupe {

http_site_pointer make_site(const access_tokens& tokens) {
  return std::make_shared<http_site>(tokens);
}

}  // namespace troupe
