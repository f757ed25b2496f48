# Third-party dependencies.
include(TroupeCache)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

if(TROUPE_TESTS)
  find_package(Catch2 3 REQUIRED HINTS ${TROUPE_CACHE}/catch2-3.7.1)
endif()

# The program needs these two; libraries of plans alone don't.
set(needed REQUIRED)
if(TROUPE_PLAN_ONLY)
  set(needed QUIET)
endif()
find_package(spdlog ${needed})
find_package(CLI11 ${needed})

if(NOT TROUPE_PLAN_ONLY)
  include(TroupeTorch)
  include(TroupeCuda)
  set(caf_folder caf-0.18.7)
  if(TROUPE_SANITIZER STREQUAL thread)
    string(APPEND caf_folder -tsan)
  endif()
  find_package(CAF 0.18.7 REQUIRED COMPONENTS core
    HINTS ${TROUPE_CACHE}/${caf_folder})
  if(NOT Boost_DIR AND NOT BOOST_ROOT AND EXISTS ${TROUPE_CACHE}/headers/include/boost)
    set(BOOST_ROOT ${TROUPE_CACHE}/headers)
  endif()
  find_package(Boost 1.81 REQUIRED)  # headers only
  find_package(OpenSSL 3 REQUIRED)
  find_package(tomlplusplus QUIET)
  if(NOT TARGET tomlplusplus::tomlplusplus)
    find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED
      HINTS ${TROUPE_CACHE}/headers/include)
    add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
    target_include_directories(tomlplusplus::tomlplusplus
      INTERFACE ${TOMLPLUSPLUS_INCLUDE})
  endif()
  find_library(TCMALLOC_LIBRARY
    NAMES tcmalloc_minimal libtcmalloc_minimal.so.4)
endif()
