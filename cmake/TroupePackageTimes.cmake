# Gives all files of a package the time of its commit, so that packages of one commit are
# the same bytes. CPack runs it when all are in place.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec
    touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +)
endif()
