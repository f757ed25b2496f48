// Defines troupe_headers_differ_from_library_SUM, by which the linker refuses a
// program that was compiled with other headers (cmake/TroupeSameHeaders.cmake).
#include "troupe_headers.hpp"

const char TROUPE_HEADERS_OF_LIBRARY = 0;
