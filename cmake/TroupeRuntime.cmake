# The components that need LibTorch and CAF, the program, examples, benchmarks.
troupe_precompiled_header(torch DEPENDS torch::cpu HEADERS
  <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>
  <torch/csrc/autograd/function.h>
  <torch/csrc/autograd/generated/variable_factories.h>
  <torch/csrc/autograd/variable.h> <torch/nn/module.h>)

troupe_component(device DIRECTORY engine/device
  DEPENDS troupe::schedules torch::cpu ${CMAKE_DL_LIBS} PCH torch)
troupe_component(transport DIRECTORY engine/transport
  DEPENDS troupe::device PRIVATE Boost::headers PCH torch)
target_link_libraries(troupe_transport PRIVATE OpenSSL::SSL)
troupe_component(launch DIRECTORY engine/launch
  DEPENDS troupe::transport PCH torch)
troupe_component(events DIRECTORY engine/events
  DEPENDS troupe::device PCH torch)
include(TroupeStatistics)
if(TROUPE_CUDA)
  include(TroupeCudaPlugin)
endif()
troupe_component(stage DIRECTORY engine/stage
  DEPENDS troupe::device troupe::events PCH torch)
troupe_component(models DIRECTORY engine/models DEPENDS troupe::data PCH torch)
troupe_component(data DIRECTORY engine/data DEPENDS troupe::stage PCH torch)
troupe_component(checkpoint DIRECTORY engine/checkpoint
  DEPENDS troupe::data PRIVATE nlohmann_json::nlohmann_json PCH torch)
troupe_component(actors DIRECTORY actors
  DEPENDS troupe::plan troupe::data troupe::checkpoint troupe::transport
    CAF::core spdlog::spdlog PCH torch)

# Actors with faked stages. Nothing further can be run by the thread sanitizer,
# as LibTorch is not built with it.
troupe_tests(pipeline DIRECTORY tests/actors/pipeline
  DEPENDS troupe::actors PCH torch)
if(TROUPE_SANITIZER STREQUAL thread)
  return()
endif()

troupe_component(monitors DIRECTORY monitors
  DEPENDS troupe::actors nlohmann_json::nlohmann_json PCH torch)
troupe_component(live DIRECTORY monitors/live
  DEPENDS troupe::monitors troupe::transport nlohmann_json::nlohmann_json
  PRIVATE Boost::headers PCH torch)

troupe_component(sinks DIRECTORY monitors/sinks
  DEPENDS troupe::monitors
  PRIVATE nlohmann_json::nlohmann_json Boost::headers PCH torch)

troupe_component(dashboard DIRECTORY monitors/dashboard
  DEPENDS troupe::sinks nlohmann_json::nlohmann_json PCH torch)
include(TroupePage)

file(CONFIGURE OUTPUT ${troupe_include}/troupe_version.hpp CONTENT
"#pragma once\n#define TROUPE_VERSION \"${PROJECT_VERSION}\"\n")
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.cpp)
if(sources)
  troupe_program(troupe SOURCES ${sources} PCH torch
    DEPENDS troupe::dashboard troupe::live troupe::launch troupe::models CLI11::CLI11
      tomlplusplus::tomlplusplus)
endif()

if(TROUPE_EXAMPLES)
  troupe_programs(examples DEPENDS troupe::monitors troupe::models PCH torch)
endif()
if(TROUPE_BENCH)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native TROUPE_HAS_MARCH_NATIVE)
  set_source_files_properties(bench/statistics/plain_sum.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;$<$<BOOL:${TROUPE_HAS_MARCH_NATIVE}>:-march=native>"
    SKIP_PRECOMPILE_HEADERS ON)
  troupe_programs(bench DEPENDS troupe::monitors troupe::models
    troupe::transport CLI11::CLI11 PCH torch)
  target_link_libraries(bench_links PRIVATE OpenSSL::SSL)
endif()

foreach(name device transport launch events stage models data checkpoint)
  troupe_tests(${name} DIRECTORY tests/engine/${name}
    DEPENDS troupe::${name} troupe::models PCH torch)
endforeach()
if(TROUPE_CUDA)
  set(plugin troupe_cuda)
endif()
troupe_tests(cuda DIRECTORY tests/engine/cuda
  DEPENDS troupe::events PCH torch NEEDS ${plugin})
if(TROUPE_CUDA)
  troupe_tests(gpu DIRECTORY tests/engine/cuda/gpu
    DEPENDS troupe::events PCH torch NEEDS ${plugin})
  if(TROUPE_TESTS)
    target_sources(tests_gpu PRIVATE tests/engine/cuda/host_statistics.cpp
      tests/engine/cuda/same_statistics.cpp)
  endif()
endif()
troupe_tests(actors DIRECTORY tests/actors
  DEPENDS troupe::actors troupe::models PCH torch)
if(TROUPE_CUDA)
  troupe_tests(gpu_training DIRECTORY tests/actors/gpu
    DEPENDS troupe::actors troupe::models PCH torch NEEDS ${plugin})
  if(TROUPE_TESTS)
    target_sources(tests_gpu_training PRIVATE
      tests/actors/device_trainings.cpp tests/actors/disturbed_accelerator.cpp
      tests/actors/race_watch.cpp tests/actors/small_model.cpp
      tests/actors/step_trace.cpp)
  endif()
endif()
troupe_tests(monitors DIRECTORY tests/monitors
  DEPENDS troupe::monitors troupe::models PCH torch)
troupe_tests(sinks DIRECTORY tests/monitors/sinks
  DEPENDS troupe::sinks PCH torch)
troupe_tests(live DIRECTORY tests/monitors/live
  DEPENDS troupe::live troupe::models PCH torch)
troupe_tests(dashboard DIRECTORY tests/monitors/dashboard
  DEPENDS troupe::dashboard troupe::models PCH torch)
troupe_tests(cli DIRECTORY tests/cli DEPENDS troupe::sinks troupe::live
  CLI11::CLI11 PCH torch NEEDS troupe)
if(TROUPE_TESTS)
  target_sources(tests_cli PRIVATE cli/top_view.cpp cli/train_files.cpp)
endif()
troupe_tests(examples DIRECTORY tests/examples DEPENDS troupe::plan
  NEEDS troupe)

troupe_fuzz(DIRECTORY tests/fuzz PCH torch
  HARNESS replay_test.cpp waiting_job_test.cpp seeds.cpp largest_allocation.cpp
  NEEDS troupe
  SOURCES ${PROJECT_SOURCE_DIR}/cli/config_file.cpp
  DEPENDS troupe::live troupe::sinks troupe::launch CLI11::CLI11
    tomlplusplus::tomlplusplus)
