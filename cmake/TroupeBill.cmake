# The bill of materials of packages (CycloneDX), and the licences of what they carry.
set(troupe_documents share/doc/troupe)
set(troupe_parts "")

# troupe_part(NAME LICENSE HOW VERSION URL FILE): HOW is linked, headers or required
# (which no package carries).
function(troupe_part name license how version url file)
  string(CONCAT entry "    {\"type\": \"library\", \"name\": \"${name}\", "
    "\"version\": \"${version}\", \"purl\": \"${url}\",\n"
    "     \"licenses\": [{\"license\": {\"id\": \"${license}\"}}],\n"
    "     \"properties\": [{\"name\": \"troupe:how\", \"value\": \"${how}\"}]}")
  set(troupe_parts ${troupe_parts} "${entry}" PARENT_SCOPE)
  if(file)
    install(FILES ${file} DESTINATION ${troupe_documents}/licences
      RENAME ${name}.txt COMPONENT documents)
  endif()
endfunction()

# The same of a package of Debian's, whose copyright file has the licence.
macro(troupe_debian_part name license how package)
  set(file /usr/share/doc/${package}/copyright)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package}
    OUTPUT_VARIABLE version RESULT_VARIABLE failed ERROR_QUIET)
  if(failed OR NOT EXISTS ${file})
    message(FATAL_ERROR "The licence of ${name} is missing: packages are made of "
      "Debian's ${package}, with its ${file}.")
  endif()
  file(REAL_PATH ${file} file)
  troupe_part(${name} ${license} ${how} ${version}
    "pkg:deb/debian/${package}@${version}" ${file})
endmacro()

troupe_debian_part(fmt MIT linked libfmt-dev)
troupe_debian_part(spdlog MIT linked libspdlog-dev)
troupe_debian_part(openssl Apache-2.0 linked libssl-dev)
troupe_debian_part(tomlplusplus MIT linked libtomlplusplus-dev)
troupe_debian_part(nlohmann_json MIT headers nlohmann-json3-dev)
troupe_debian_part(cli11 BSD-3-Clause headers libcli11-dev)
if(TCMALLOC_LIBRARY)
  troupe_debian_part(gperftools BSD-3-Clause linked libtcmalloc-minimal4)
endif()
troupe_part(actor-framework BSD-3-Clause linked ${CAF_VERSION}
  "pkg:github/actor-framework/actor-framework@${CAF_VERSION}"
  ${PROJECT_SOURCE_DIR}/packaging/licences/caf.txt)
# Debian's copyright file of it has 2 MB.
troupe_part(boost BSL-1.0 headers ${Boost_VERSION_STRING}
  "pkg:github/boostorg/boost@boost-${Boost_VERSION_STRING}"
  ${PROJECT_SOURCE_DIR}/packaging/licences/boost.txt)
troupe_part(torch BSD-3-Clause required ${TROUPE_TORCH_VERSION}
  "pkg:pypi/torch@${TROUPE_TORCH_VERSION}" "")

string(TIMESTAMP time "%Y-%m-%dT%H:%M:%SZ" UTC)  # of SOURCE_DATE_EPOCH
list(JOIN troupe_parts ",\n" entries)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/sbom.cdx.json @ONLY CONTENT
[[{
  "bomFormat": "CycloneDX",
  "specVersion": "1.5",
  "version": 1,
  "metadata": {
    "timestamp": "@time@",
    "component": {"type": "application", "name": "troupe", "version": "@PROJECT_VERSION@",
      "licenses": [{"license": {"id": "Apache-2.0"}}]}
  },
  "components": [
@entries@
  ]
}
]])
install(FILES ${PROJECT_BINARY_DIR}/sbom.cdx.json ${PROJECT_SOURCE_DIR}/LICENSE
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${troupe_documents} COMPONENT documents)
