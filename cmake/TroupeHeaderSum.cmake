# Writes OUTPUT: TEMPLATE with @sum@ and @number@ (of 28 bits), which differ if one of the HEADERS (separated by
# |, of FOLDER) has another content.
string(REPLACE "|" ";" headers "${HEADERS}")
foreach(header ${headers})
  file(SHA256 ${FOLDER}/${header} sum)
  string(APPEND sums "${header} ${sum}\n")
endforeach()
string(SHA256 sum "${sums}${MORE}")
string(SUBSTRING ${sum} 0 7 number)
string(SUBSTRING ${sum} 0 12 sum)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
