# troupe_tests(NAME DIRECTORY folder DEPENDS targets [DEFINITIONS definitions]
#              [PCH kind] [NEEDS targets])
# makes the Catch2 executable tests_NAME of the folder's *_test.cpp files (and
# other .cpp files, as helpers), with a CTest entry for each test case.
if(TROUPE_TESTS)
  enable_testing()
  include(Catch)
endif()

function(troupe_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;PCH"
    "DEPENDS;DEFINITIONS;NEEDS")
  file(GLOB sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY}/*.cpp)
  if(NOT TROUPE_TESTS OR NOT sources)
    return()
  endif()
  set(target tests_${name})
  troupe_program(${target} OUTPUT tests/${name} SOURCES ${sources}
    DEPENDS ${arg_DEPENDS} Catch2::Catch2WithMain PCH "${arg_PCH}")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS}
    TROUPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(arg_NEEDS)
    add_dependencies(${target} ${arg_NEEDS})
  endif()
  catch_discover_tests(${target} TEST_PREFIX "${name}: "
    DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${name} TIMEOUT 120)
endfunction()
