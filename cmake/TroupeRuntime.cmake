# The components that need LibTorch and CAF, the program, examples, benchmarks.
# Most files only need tensors; some need actors' messages; few need LibTorch's
# modules, whose header compiles slowest.
# (LibTorch's logging has a macro CHECK; Catch2's must be defined after it.)
set(standard <algorithm> <chrono> <filesystem> <functional> <map> <memory>
  <mutex> <optional> <string> <vector> <fmt/format.h> <fmt/ranges.h>)
troupe_precompiled_header(tensors DEPENDS torch::cpu fmt::fmt
  HEADERS ${standard} <c10/util/Logging.h> <ATen/TensorOperators.h>)
troupe_precompiled_header(modules DEPENDS torch::cpu fmt::fmt
  HEADERS ${standard} <c10/util/Logging.h> <ATen/TensorOperators.h>
    <torch/nn/module.h>
    <torch/csrc/autograd/custom_function.h>)
set(of_actors ${standard} <spdlog/spdlog.h> <nlohmann/json.hpp>
  <c10/util/Logging.h> <ATen/TensorOperators.h>
  <caf/actor_system.hpp> <caf/actor_system_config.hpp>
  <caf/event_based_actor.hpp> <caf/init_global_meta_objects.hpp>
  <caf/scoped_actor.hpp>)
troupe_precompiled_header(actors
  DEPENDS torch::cpu fmt::fmt CAF::core spdlog::spdlog
  HEADERS ${of_actors})

include(TroupeVectors)
troupe_component(device DIRECTORY engine/device
  DEPENDS troupe::base torch::cpu ${CMAKE_DL_LIBS} PCH tensors)
troupe_vector_code(device engine/device small_product -ffp-contract=fast)
troupe_sum_device_headers()
troupe_component(transport DIRECTORY engine/transport SUBFOLDERS address stream trust
  DEPENDS troupe::device PRIVATE Boost::headers PCH tensors)
target_link_libraries(troupe_transport PRIVATE OpenSSL::SSL)
troupe_component(launch DIRECTORY engine/launch SUBFOLDERS authority etcd
  DEPENDS troupe::membership troupe::transport
    PRIVATE Boost::headers nlohmann_json::nlohmann_json PCH tensors)
target_link_libraries(troupe_launch PRIVATE OpenSSL::SSL)
troupe_component(events DIRECTORY engine/events
  DEPENDS troupe::device spdlog::spdlog PCH tensors)
# Statistics have the same bits on all machines.
troupe_vector_code(events engine/events statistics -ffp-contract=off)
if(TROUPE_CUDA)
  include(TroupeCudaPlugin)
endif()
troupe_component(stage DIRECTORY engine/stage
  SUBFOLDERS update parameters module plain
  DEPENDS troupe::schedules troupe::device troupe::events PCH modules)
troupe_component(fused DIRECTORY engine/fused
  DEPENDS troupe::device PCH modules)
troupe_vector_code(fused engine/fused "attention;layers" -ffp-contract=fast)
troupe_component(models DIRECTORY engine/models SUBFOLDERS layers decoders
  DEPENDS troupe::data troupe::checkpoint troupe::fused
    nlohmann_json::nlohmann_json PCH modules)
troupe_model_table(troupe_models engine/models)
troupe_component(data DIRECTORY engine/data DEPENDS troupe::stage PCH tensors)
troupe_component(generation DIRECTORY engine/generation
  DEPENDS troupe::data PCH tensors)
troupe_component(checkpoint DIRECTORY engine/checkpoint
  DEPENDS troupe::device PRIVATE nlohmann_json::nlohmann_json PCH tensors)
target_link_libraries(troupe_checkpoint PRIVATE OpenSSL::Crypto)
troupe_component(actors DIRECTORY actors
  SUBFOLDERS step system monitoring job reduction rank coordination pipeline
    recording
  DEPENDS troupe::plan troupe::data troupe::generation troupe::checkpoint
    troupe::transport CAF::core PCH actors)

# Actors with fake stages. The thread sanitizer can't run more than these, as
# LibTorch is not built with it.
troupe_tests(pipeline DIRECTORY tests/actors/pipeline
  DEPENDS troupe::actors PCH actors)
if(TROUPE_SANITIZER STREQUAL thread)
  return()
endif()

troupe_component(monitors DIRECTORY monitors SUBFOLDERS tensors timing spec
  DEPENDS troupe::plan troupe::events troupe::checkpoint
    nlohmann_json::nlohmann_json PCH tensors)
troupe_component(http DIRECTORY monitors/http
  DEPENDS troupe::transport troupe::events nlohmann_json::nlohmann_json
  PRIVATE Boost::headers PCH tensors)
target_link_libraries(troupe_http PRIVATE OpenSSL::Crypto)
troupe_component(live DIRECTORY monitors/live
  DEPENDS troupe::actors troupe::monitors troupe::http nlohmann_json::nlohmann_json
  PRIVATE Boost::headers PCH actors)
troupe_component(sinks DIRECTORY monitors/sinks
  DEPENDS troupe::monitors troupe::http
  PRIVATE nlohmann_json::nlohmann_json Boost::headers PCH tensors)

troupe_component(dashboard DIRECTORY monitors/dashboard
  DEPENDS troupe::actors troupe::monitors troupe::http
    nlohmann_json::nlohmann_json PCH actors)
troupe_page(dashboard FOLDER monitors/dashboard/page TITLE troupe
  HEADER troupe/monitors/dashboard/dashboard_server.hpp FUNCTION troupe::dashboard_page
  PARTS body.html style.css draw.js curves.js timeline.js heat_map.js actors.js
    page.js)

troupe_component(training DIRECTORY training
  DEPENDS troupe::actors troupe::models troupe::live troupe::sinks
    troupe::dashboard PCH actors)

# All of it, with the umbrella headers: what nearly every program links.
add_library(troupe_all INTERFACE)
add_library(troupe::troupe ALIAS troupe_all)
set_target_properties(troupe_all PROPERTIES EXPORT_NAME troupe)
target_link_libraries(troupe_all INTERFACE troupe::training troupe::launch
  troupe::sinks troupe::dashboard troupe::live troupe::models)
target_include_directories(troupe_all INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
install(TARGETS troupe_all EXPORT troupe-runtime COMPONENT development)

# The commands that need LibTorch.
troupe_component(runtime_commands DIRECTORY cli
  SUBFOLDERS train generate checkpoint model live reference INTERNAL
  DEPENDS troupe::plan_commands troupe::lab troupe::training troupe::dashboard
    troupe::sinks troupe::live troupe::launch troupe::models
    tomlplusplus::tomlplusplus
  PRIVATE Boost::headers PCH actors)
troupe_program(troupe-runtime SOURCES cli/main.cpp
  DEPENDS troupe::runtime_commands PCH actors)
add_dependencies(troupe troupe-runtime)

if(TROUPE_EXAMPLES)
  troupe_programs(examples DEPENDS troupe::troupe PCH actors)
endif()
if(TROUPE_BENCH)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native TROUPE_HAS_MARCH_NATIVE)
  set_source_files_properties(bench/statistics/plain_sum.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;$<$<BOOL:${TROUPE_HAS_MARCH_NATIVE}>:-march=native>"
    SKIP_PRECOMPILE_HEADERS ON)
  troupe_programs(bench DEPENDS troupe::monitors troupe::live troupe::models
    troupe::transport CLI11::CLI11 PCH actors)
  target_link_libraries(bench_links PRIVATE OpenSSL::SSL)
  # Its figures are for docs/benchmarks.md; that it runs is for every build.
  if(TROUPE_TESTS)
    add_test(NAME "bench: the overhead of an op is measured"
      COMMAND bench_overhead --steps 2)
    add_test(NAME "bench: functions are measured as on a GPU"
      COMMAND bench_fused --dry-run --rounds 1)
    find_package(Python3 COMPONENTS Interpreter)
    if(TROUPE_CUDA AND Python3_FOUND)
      add_test(NAME "bench: gpu_check runs all its parts on the CPU"
        COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1
          ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/gpu/check.py --dry-run
          --build ${PROJECT_BINARY_DIR} --out ${PROJECT_BINARY_DIR}/gpu_check)
      set_tests_properties("bench: gpu_check runs all its parts on the CPU"
        PROPERTIES TIMEOUT 900)
    endif()
  endif()
endif()

# For tests that train: Catch2 and LibTorch's modules too.
if(TROUPE_TESTS)
  troupe_precompiled_header(trainings
    DEPENDS torch::cpu fmt::fmt CAF::core spdlog::spdlog Catch2::Catch2
    HEADERS ${of_actors} <torch/nn/module.h>
      <catch2/catch_test_macros.hpp>
      <catch2/matchers/catch_matchers_exception.hpp>
      <catch2/matchers/catch_matchers_string.hpp>)
endif()
foreach(name device transport launch events data generation checkpoint)
  troupe_tests(${name} DIRECTORY tests/engine/${name}
    DEPENDS troupe::${name} troupe::models PCH tensors)
endforeach()
foreach(name stage models)
  troupe_tests(${name} DIRECTORY tests/engine/${name}
    DEPENDS troupe::${name} troupe::models troupe::checkpoint PCH modules)
endforeach()
troupe_tests(fused DIRECTORY tests/engine/fused
  DEPENDS troupe::fused PCH modules)
if(TROUPE_CUDA)
  set(plugin troupe_cuda)
endif()
troupe_tests(cuda DIRECTORY tests/engine/cuda
  DEPENDS troupe::events PCH tensors NEEDS ${plugin})
if(TROUPE_CUDA)
  troupe_tests(gpu DIRECTORY tests/engine/cuda/gpu
    DEPENDS troupe::events troupe::fused PCH tensors NEEDS ${plugin}
    SOURCES tests/engine/cuda/host_statistics.cpp
      tests/engine/cuda/same_statistics.cpp)
endif()
# The layout of at::RecordFunction depends on NDEBUG, with which LibTorch is built.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set_source_files_properties(engine/device/profiler.cpp engine/stage/random.cpp
    tests/actors/faked_tape.cpp tests/actors/race_watch.cpp tests/actors/step_trace.cpp
    PROPERTIES
    COMPILE_DEFINITIONS NDEBUG SKIP_PRECOMPILE_HEADERS ON)
endif()
troupe_tests(actors DIRECTORY tests/actors
  DEPENDS troupe::actors troupe::launch troupe::models PCH trainings
  SOURCES examples/stage_graphs/graph_models.cpp)
if(TROUPE_CUDA)
  troupe_tests(gpu_training DIRECTORY tests/actors/gpu
    DEPENDS troupe::actors troupe::models PCH trainings NEEDS ${plugin}
    SOURCES tests/actors/device_trainings.cpp
      tests/actors/disturbed_accelerator.cpp tests/actors/noted_ops.cpp
      tests/actors/race_watch.cpp tests/actors/small_model.cpp
      tests/actors/step_trace.cpp)
endif()
troupe_tests(monitors DIRECTORY tests/monitors
  DEPENDS troupe::actors troupe::monitors troupe::models PCH trainings)
troupe_tests(http DIRECTORY tests/monitors/http
  DEPENDS troupe::http PCH tensors)
troupe_tests(sinks DIRECTORY tests/monitors/sinks
  DEPENDS troupe::sinks PCH tensors)
troupe_tests(live DIRECTORY tests/monitors/live
  DEPENDS troupe::live troupe::models PCH trainings)
troupe_tests(dashboard DIRECTORY tests/monitors/dashboard
  DEPENDS troupe::dashboard troupe::models PCH trainings)
troupe_tests(training DIRECTORY tests/training
  DEPENDS troupe::training PCH trainings)
troupe_tests(cli DIRECTORY tests/cli DEPENDS troupe::runtime_commands
  PCH actors NEEDS troupe tests_failing_op)
if(TROUPE_TESTS)
  add_library(tests_failing_op MODULE tests/cli/failing_op/failing_op.cpp)
  target_link_libraries(tests_failing_op PRIVATE troupe_flags)
  set_target_properties(tests_failing_op PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests)
  include(TroupeSnippets)
endif()
troupe_tests(examples DIRECTORY tests/examples DEPENDS troupe::plan
  NEEDS troupe)

troupe_fuzz(DIRECTORY tests/fuzz PCH actors
  HARNESS replay_test.cpp waiting_job_test.cpp seeds.cpp largest_allocation.cpp
  NEEDS troupe
  DEPENDS troupe::runtime_commands Boost::headers)
