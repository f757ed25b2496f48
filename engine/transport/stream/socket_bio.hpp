#pragma once

struct bio_st;

namespace troupe {

/// OpenSSL's interface to a socket, without the signal that a write to a closed
/// one raises. The caller keeps the socket.
bio_st* make_socket_bio(int descriptor);

}  // namespace troupe
