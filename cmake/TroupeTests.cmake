# troupe_tests(NAME DIRECTORY folder DEPENDS targets [PCH kind] [NEEDS targets]
#              [SOURCES files])
# makes the Catch2 executable tests/NAME of the folder's .cpp files, and those
# sources, with a CTest entry for each file, labelled NAME: starting a process with
# LibTorch takes 0.2 s, as long as most test cases. Test cases tagged
#   [serial]  run alone,
#   [.full]   are labelled full and run by scripts/test --full only;
# both have entries of their own. One test case: bin/tests/NAME "its name".
if(TROUPE_TESTS)
  enable_testing()
  add_library(troupe_test_main OBJECT tests/assertion_threads.cpp)
  target_link_libraries(troupe_test_main PUBLIC Catch2::Catch2WithMain
    PRIVATE troupe_flags)
  # Paths that tests need; in a header, as paths in compiler flags would keep
  # another clone from using this one's ccache.
  set(cuda_code "")
  if(TROUPE_CUDA AND NOT TROUPE_PLAN_ONLY)
    set(cuda_code "${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  file(CONFIGURE OUTPUT ${troupe_include}/troupe_paths.hpp CONTENT
"#pragma once
#define TROUPE_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\"
#define TROUPE_COMPILER \"${CMAKE_CXX_COMPILER}\"
#define TROUPE_PROGRAM \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/troupe\"
#define TROUPE_FAILING_OP \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests/tests_failing_op.so\"
#define TROUPE_CUDA_CODE \"${cuda_code}\"
#define TROUPE_EXAMPLES \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/examples\"
#define TROUPE_READERS \"${TROUPE_CACHE}/readers\"
")
endif()

# Flags that -O2 turns on. From version 13 on, g++ warns and ignores a precompiled
# header unless they are the same where it is used.
set(troupe_flags_of_o2)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU
    AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
    AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(troupe_flags_of_o2 -munroll-only-small-loops -mvzeroupper)
endif()

function(troupe_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;PCH"
    "DEPENDS;NEEDS;SOURCES")
  file(GLOB sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY}/*.cpp)
  if(NOT TROUPE_TESTS OR NOT sources)
    return()
  endif()
  set(target tests_${name})
  troupe_program(${target} OUTPUT tests/${name} SOURCES ${sources} ${arg_SOURCES}
    DEPENDS ${arg_DEPENDS} troupe_test_main PCH "${arg_PCH}")
  # Tests spend their time in the libraries: less optimisation compiles faster.
  target_compile_options(${target} PRIVATE
    "$<$<CONFIG:Release>:-O1;${troupe_flags_of_o2}>")
  if(arg_NEEDS)
    add_dependencies(${target} ${arg_NEEDS})
  endif()
  foreach(source ${sources} ${arg_SOURCES})
    troupe_test_file(${name} ${source})
  endforeach()
endfunction()

# The CTest entries of a file of tests, by the tags that it has when CMake runs.
function(troupe_test_file name source)
  get_filename_component(file ${source} NAME_WE)
  string(REGEX REPLACE "_test$" "" entry "${name}: ${file}")
  file(READ ${source} text)
  set(shared "[#${file}]~[.]")
  if(text MATCHES "\\[serial\\]")
    troupe_test_cases("${entry}, alone" ${name} "[#${file}][serial]"
      LABELS ${name} RUN_SERIAL ON)
    string(APPEND shared "~[serial]")
  endif()
  if(text MATCHES "TEST_CASE")
    troupe_test_cases("${entry}" ${name} ${shared} LABELS ${name})
  endif()
  if(text MATCHES "\\[\\.full\\]")
    troupe_test_cases("${entry}, in full" ${name} "[#${file}][.full]"
      LABELS full TIMEOUT 3600)
  endif()
endfunction()

function(troupe_test_cases entry name specification)
  add_test(NAME "${entry}" COMMAND tests_${name} --filenames-as-tags
    --allow-running-no-tests "${specification}")
  set_tests_properties("${entry}" PROPERTIES SKIP_RETURN_CODE 4 TIMEOUT 300 ${ARGN})
endfunction()

# Installs the package, and builds and runs a project that uses it.
function(troupe_package_tests)
  set(package ${PROJECT_BINARY_DIR}/package)
  add_test(NAME "package: install" COMMAND ${CMAKE_COMMAND} --install
    ${PROJECT_BINARY_DIR} --prefix ${package})
  set_tests_properties("package: install" PROPERTIES
    FIXTURES_SETUP package LABELS package)
  foreach(use ${ARGV})
    set(folder ${PROJECT_BINARY_DIR}/uses_${use})
    add_test(NAME "package: uses ${use}" COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${PROJECT_SOURCE_DIR}/tests/package ${folder}
      --build-generator Ninja --build-options -DUSES=${use}
        -DCMAKE_PREFIX_PATH=${package} -DCMAKE_BUILD_TYPE=Debug
        -DCMAKE_CXX_FLAGS=-O0
        -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE_PROGRAM}
      --test-command ${folder}/uses_${use})
    set_tests_properties("package: uses ${use}" PROPERTIES
      FIXTURES_REQUIRED package LABELS package TIMEOUT 300
      FIXTURES_SETUP package_${use}
      ENVIRONMENT "CCACHE_BASEDIR=${PROJECT_BINARY_DIR};CCACHE_NOHASHDIR=1")
  endforeach()
endfunction()

# The ends of uses_trainer: its exit code and output.
function(troupe_package_exit name mode code says)
  add_test(NAME "package: ${name}" COMMAND sh -c
    "USES_TRAINER=${mode} ${PROJECT_BINARY_DIR}/uses_trainer/uses_trainer 2>&1; echo code $?")
  set_tests_properties("package: ${name}" PROPERTIES
    FIXTURES_REQUIRED "package;package_trainer" LABELS package TIMEOUT 60
    PASS_REGULAR_EXPRESSION "${says}.*code ${code}")
endfunction()
