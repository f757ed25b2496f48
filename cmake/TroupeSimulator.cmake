# The simulator of membership (docs/design.md, Membership): the program
# membership_simulator, and one like it for each bug of tests/membership/bugs,
# planted in a copy of the sources of engine/membership, so that production code
# has no switch for them.
if(NOT TROUPE_TESTS)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/tests/membership/*.cpp)
list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/tests/membership/main.cpp)
# Compiled as those that link it do; which membership it is, they say.
add_library(troupe_simulator STATIC ${sources})
target_include_directories(troupe_simulator PUBLIC ${troupe_include})
target_link_libraries(troupe_simulator PUBLIC fmt::fmt PRIVATE troupe_flags)
target_compile_features(troupe_simulator PUBLIC cxx_std_20)
troupe_program(membership_simulator SOURCES tests/membership/main.cpp
  DEPENDS troupe_simulator troupe::membership)
