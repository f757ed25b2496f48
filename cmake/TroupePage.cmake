# troupe_page(COMPONENT FOLDER folder TITLE title HEADER header FUNCTION name
#             PARTS files)
# embeds a page in a component: page/page.html with its title, body.html, styles
# and scripts, behind those of page/, as one text, which the function
# `std::string_view FUNCTION()` of the header returns. Run as a script (cmake
# -P), this file writes that function's source.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  string(REPLACE "," ";" parts "${PARTS}")
  file(READ ${BASE}/page.html page)
  foreach(part ${BASE}/base.css ${BASE}/base.js ${parts})
    cmake_path(ABSOLUTE_PATH part BASE_DIRECTORY ${FOLDER})
    file(READ ${part} text)
    if(part MATCHES "html$")
      string(REPLACE "@body@" "${text}" page "${page}")
    elseif(part MATCHES "css$")
      string(APPEND style "${text}")
    else()
      string(APPEND script "${text}")
    endif()
  endforeach()
  string(REPLACE "@title@" "${TITLE}" page "${page}")
  string(REPLACE "@style@" "${style}" page "${page}")
  string(REPLACE "@script@" "${script}" page "${page}")
  # Compilers bound the length of a literal; adjacent ones are joined.
  string(LENGTH "${page}" length)
  set(literals "")
  foreach(start RANGE 0 ${length} 12000)
    string(SUBSTRING "${page}" ${start} 12000 piece)
    string(APPEND literals "R\"troupe_page(${piece})troupe_page\"\n")
  endforeach()
  file(WRITE ${OUTPUT}
"#include \"${HEADER}\"

std::string_view ${FUNCTION}() {
  return ${literals};
}
")
  return()
endif()

function(troupe_page component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;TITLE;HEADER;FUNCTION" "PARTS")
  set(folder ${PROJECT_SOURCE_DIR}/${arg_FOLDER})
  set(output ${PROJECT_BINARY_DIR}/generated/${component}_page.cpp)
  set(base ${PROJECT_SOURCE_DIR}/page)
  list(TRANSFORM arg_PARTS PREPEND ${folder}/ OUTPUT_VARIABLE files)
  list(JOIN arg_PARTS "," parts)
  set(script ${PROJECT_SOURCE_DIR}/cmake/TroupePage.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D BASE=${base} -D FOLDER=${folder}
      -D OUTPUT=${output} -D TITLE=${arg_TITLE}
      -D HEADER=${arg_HEADER} -D FUNCTION=${arg_FUNCTION} -D PARTS=${parts}
      -P ${script}
    DEPENDS ${files} ${base}/page.html ${base}/base.css ${base}/base.js ${script}
    VERBATIM)
  target_sources(troupe_${component} PRIVATE ${output})
endfunction()
