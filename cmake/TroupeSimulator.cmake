# The simulator of membership (docs/design.md, Membership): the program
# membership_simulator, and one like it, bugs/NAME, for each bug of
# tests/membership/bugs, planted in a copy of the sources of engine/membership, so
# that production code has no switch for them.
if(NOT TROUPE_TESTS)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/tests/membership/*.cpp)
list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/tests/membership/main.cpp)
# Whose membership it simulates is for the programs to say that link it.
add_library(troupe_simulator STATIC ${sources})
target_include_directories(troupe_simulator PUBLIC ${troupe_include})
target_link_libraries(troupe_simulator PUBLIC fmt::fmt PRIVATE troupe_flags)
target_compile_features(troupe_simulator PUBLIC cxx_std_20)
troupe_program(membership_simulator SOURCES tests/membership/main.cpp
  DEPENDS troupe_simulator troupe::membership)

# Writes a copy of the sources with one text replaced, which must be there once, as
# one file, and makes the simulator of it.
function(troupe_plant name file text replacement)
  set(all "")
  file(GLOB originals CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/membership/*.cpp)
  foreach(original ${originals})
    cmake_path(GET original FILENAME each)
    if(NOT each STREQUAL file)
      string(APPEND all "#include \"troupe/engine/membership/${each}\"\n")
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
    file(READ ${original} content)
    string(FIND "${content}" "${text}" first)
    string(FIND "${content}" "${text}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
      message(FATAL_ERROR "The bug ${name} can't be planted: ${file} does not "
        "have its text once.")
    endif()
    string(REPLACE "${text}" "${replacement}" content "${content}")
    string(APPEND all "${content}")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/bugs/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "${all}" @ONLY)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -w)
  troupe_program(membership_simulator_${name} OUTPUT bugs/${name}
    SOURCES tests/membership/main.cpp ${source}
    DEPENDS troupe_simulator troupe::base)
endfunction()

file(GLOB bugs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/membership/bugs/*.txt)
set(simulators membership_simulator)
foreach(bug ${bugs})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${bug})
  cmake_path(GET bug STEM name)
  file(READ ${bug} content)
  string(REGEX MATCH "^([a-z_.]+)\n----\n(.*)\n----\n(.*)\n$" matched "${content}")
  troupe_plant(${name} "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" "${CMAKE_MATCH_3}")
  list(APPEND simulators membership_simulator_${name})
endforeach()
