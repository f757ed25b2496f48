# The code blocks of README.md, docs/ and docs/migration/: C++ is compiled by the target
# tests_docs; the rest is run by the test "docs: code blocks".
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(script ${PROJECT_SOURCE_DIR}/tests/docs/snippets.py)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md
  ${PROJECT_SOURCE_DIR}/docs/migration/*.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/README.md ${pages} ${script})
execute_process(COMMAND ${Python3_EXECUTABLE} ${script} extract
  ${PROJECT_BINARY_DIR}/snippets OUTPUT_VARIABLE sources
  COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${sources}" sources)
string(REPLACE "\n" ";" sources "${sources}")

add_library(tests_docs OBJECT ${sources})
target_link_libraries(tests_docs PRIVATE troupe_flags troupe::troupe)
target_compile_options(tests_docs PRIVATE -Wno-shadow
  -Wno-unused-variable)
troupe_precompile(tests_docs actors)
add_test(NAME "docs: code blocks" COMMAND ${Python3_EXECUTABLE} ${script} run
  $<TARGET_FILE:troupe>)
set_tests_properties("docs: code blocks" PROPERTIES LABELS docs TIMEOUT 300)

# The drawings in docs/schedules/ are what `troupe plan` prints.
add_test(NAME "docs: drawings" COMMAND ${Python3_EXECUTABLE}
  ${PROJECT_SOURCE_DIR}/tests/docs/drawings.py check $<TARGET_FILE:troupe>)
set_tests_properties("docs: drawings" PROPERTIES LABELS docs TIMEOUT 60)

# The site in a browser, where scripts/docs has made it and there is a browser.
add_test(NAME "docs: site" COMMAND ${Python3_EXECUTABLE}
  ${PROJECT_SOURCE_DIR}/tests/docs/site.py ${PROJECT_SOURCE_DIR}/build/docs/html)
set_tests_properties("docs: site" PROPERTIES LABELS docs TIMEOUT 600
  SKIP_RETURN_CODE 77)
