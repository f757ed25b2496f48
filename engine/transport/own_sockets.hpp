#pragma once

#include <string>
#include <vector>

namespace troupe {

/// The endpoint `unix:PATH` of a socket of that name in the user's own folder
/// (own_folder.hpp). Removes sockets that killed jobs left there. Throws `io`
/// if there is no such folder, and none can be made.
std::string own_socket(const std::string& name);
/// An endpoint there for the clients of this process. Its name has the
/// process's id and random digits, as containers that share the folder may have
/// processes of the same id.
std::string own_endpoint();
/// One for the clients of a job that another process may serve later: the same
/// for the same name of the job.
std::string job_endpoint(const std::string& job);
/// All such endpoints at which a process listens, ordered by the number in
/// their name. Makes nothing; empty if the user has no folder.
std::vector<std::string> own_endpoints();

}  // namespace troupe
