# The dashboard's page: HTML, style and scripts in one file, embedded in the
# program. Run as a script (cmake -P), this file writes that source; included,
# it adds the rule that does so to the component.
set(parts page.html style.css draw.js curves.js timeline.js heat_map.js
  actors.js page.js)

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  foreach(part ${parts})
    file(READ ${FOLDER}/${part} text)
    if(part STREQUAL page.html)
      set(page "${text}")
    elseif(part MATCHES "css$")
      string(REPLACE "@style@" "${text}" page "${page}")
    else()
      string(APPEND script "${text}")
    endif()
  endforeach()
  string(REPLACE "@script@" "${script}" page "${page}")
  file(WRITE ${OUTPUT}
"#include \"troupe/monitors/dashboard/page.hpp\"

std::string_view troupe::dashboard_page() {
  return R\"troupe_page(${page})troupe_page\";
}
")
  return()
endif()

set(folder ${PROJECT_SOURCE_DIR}/monitors/dashboard/page)
set(output ${PROJECT_BINARY_DIR}/generated/dashboard_page.cpp)
list(TRANSFORM parts PREPEND ${folder}/ OUTPUT_VARIABLE files)
add_custom_command(OUTPUT ${output}
  COMMAND ${CMAKE_COMMAND} -D FOLDER=${folder} -D OUTPUT=${output}
    -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${files} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(troupe_dashboard PRIVATE ${output})
