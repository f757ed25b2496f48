#pragma once

#include <array>
#include <functional>

/// Two connected sockets, for two processes.
std::array<int, 2> unix_sockets();
std::array<int, 2> tcp_sockets();

/// Runs `other` in a process of its own beside `own`, each with one of the
/// sockets, and returns what `own` measured. No thread may run.
double in_two_processes(const std::array<int, 2>& sockets,
                        const std::function<double(int)>& own,
                        const std::function<void(int)>& other);
