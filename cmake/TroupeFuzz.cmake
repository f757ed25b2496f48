# troupe_fuzz(DIRECTORY folder HARNESS files DEPENDS targets [PCH kind]
#             [NEEDS targets])
# For every other .cpp file of the folder, with LLVMFuzzerTestOneInput, makes:
#   - its part of the test program tests/fuzz, which replays its corpus;
#   - with TROUPE_FUZZ a program bin/fuzz/NAME, driven by libFuzzer.
if(TROUPE_FUZZ)
  find_program(CLANG_PROGRAM NAMES clang clang-19 clang-16 clang-15 clang-14)
  if(NOT CLANG_PROGRAM)
    message(FATAL_ERROR "TROUPE_FUZZ needs libFuzzer: install clang")
  endif()
  execute_process(OUTPUT_VARIABLE LIBFUZZER OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND ${CLANG_PROGRAM} -print-file-name=libclang_rt.fuzzer-x86_64.a)
endif()

function(troupe_fuzz)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "DIRECTORY;PCH"
    "HARNESS;DEPENDS;NEEDS")
  set(folder ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(TRANSFORM arg_HARNESS PREPEND ${folder}/)
  list(REMOVE_ITEM sources ${arg_HARNESS} ${folder}/coverage.cpp
    ${folder}/custom_mutator.cpp)
  foreach(source ${sources})
    cmake_path(GET source STEM name)
    list(APPEND names ${name})
    string(APPEND declared
      "extern \"C\" int fuzz_${name}(const std::uint8_t*, std::size_t);\n")
    string(APPEND listed "  {\"${name}\", fuzz_${name}},\n")
  endforeach()
  if(TROUPE_FUZZ)
    troupe_fuzz_programs("${names}" ${ARGN})
  endif()
  if(NOT TROUPE_TESTS)
    return()
  endif()
  file(CONFIGURE OUTPUT ${troupe_include}/troupe_fuzz_parsers.hpp CONTENT
"#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
${declared}namespace troupe::testing {
inline const std::map<std::string, int (*)(const std::uint8_t*, std::size_t)>
  fuzzed_parsers{
${listed}};
}
")
  set(objects)
  foreach(name ${names})
    set(target fuzz_replay_${name})
    add_library(${target} OBJECT ${folder}/${name}.cpp)
    target_compile_definitions(${target} PRIVATE
      LLVMFuzzerTestOneInput=fuzz_${name})
    target_link_libraries(${target} PRIVATE troupe_flags ${arg_DEPENDS})
    troupe_precompile(${target} "${arg_PCH}")
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  troupe_program(tests_fuzz OUTPUT tests/fuzz PCH "${arg_PCH}"
    SOURCES ${arg_HARNESS} ${objects}
    DEPENDS ${arg_DEPENDS} troupe_test_main)
  if(arg_NEEDS)
    add_dependencies(tests_fuzz ${arg_NEEDS})
  endif()
  foreach(source ${arg_HARNESS})
    troupe_test_file(fuzz ${source})
  endforeach()
endfunction()

# g++ lacks -fsanitize=fuzzer; coverage.cpp and libFuzzer define the callbacks
# that it inserts in each block and at each comparison. libFuzzer's own empty
# definition of the first is ignored.
function(troupe_fuzz_programs names)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;PCH"
    "HARNESS;DEPENDS;NEEDS")
  set(folder ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY})
  add_library(fuzz_shared STATIC EXCLUDE_FROM_ALL ${folder}/coverage.cpp)
  target_link_libraries(fuzz_shared PRIVATE troupe_flags ${arg_DEPENDS})
  troupe_precompile(fuzz_shared "${arg_PCH}")
  foreach(name ${names})
    troupe_program(fuzz_${name} OUTPUT fuzz/${name} PCH "${arg_PCH}"
      SOURCES ${folder}/${name}.cpp ${folder}/custom_mutator.cpp
      DEPENDS fuzz_shared ${arg_DEPENDS} ${LIBFUZZER})
    target_link_options(fuzz_${name} PRIVATE LINKER:-z,muldefs)
  endforeach()
endfunction()
