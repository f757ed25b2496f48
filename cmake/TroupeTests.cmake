# troupe_tests(NAME DIRECTORY folder DEPENDS targets [PCH kind] [NEEDS targets])
# makes the Catch2 executable tests/NAME of the folder's .cpp files, with a
# CTest entry for each test case, labelled NAME. Test cases tagged
#   [serial]  run with nothing beside them,
#   [.full]   are labelled full and run by scripts/test --full only.
if(TROUPE_TESTS)
  enable_testing()
  include(Catch)
  # What tests know of their surroundings; in a header of its own, as paths in
  # compiler flags would keep another clone from hitting this one's ccache.
  file(CONFIGURE OUTPUT ${troupe_include}/troupe_paths.hpp CONTENT
"#pragma once
#define TROUPE_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\"
#define TROUPE_PROGRAM \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/troupe\"
#define TROUPE_EXAMPLES \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/examples\"
")
endif()

function(troupe_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;PCH" "DEPENDS;NEEDS")
  file(GLOB sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY}/*.cpp)
  if(NOT TROUPE_TESTS OR NOT sources)
    return()
  endif()
  set(target tests_${name})
  troupe_program(${target} OUTPUT tests/${name} SOURCES ${sources}
    DEPENDS ${arg_DEPENDS} Catch2::Catch2WithMain PCH "${arg_PCH}")
  if(arg_NEEDS)
    add_dependencies(${target} ${arg_NEEDS})
  endif()
  troupe_discover(${name} "~[serial]" LABELS ${name} TIMEOUT 300)
  troupe_discover(${name} "[serial]" LABELS ${name} TIMEOUT 300 RUN_SERIAL ON)
  troupe_discover(${name} "[.full]" LABELS full TIMEOUT 3600)
endfunction()

function(troupe_discover name specification)
  catch_discover_tests(tests_${name} TEST_PREFIX "${name}: "
    TEST_SPEC ${specification} DISCOVERY_MODE PRE_TEST PROPERTIES ${ARGN})
endfunction()
