# Gives all files of a package the time of its commit, so that packages of one commit are
# the same bytes.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${CMAKE_INSTALL_PREFIX} -exec
    touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +)
endif()
