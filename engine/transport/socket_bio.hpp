#pragma once

struct bio_st;

namespace troupe {

/// A socket as OpenSSL reads and writes it, without the signal that a write to
/// a closed one raises. The socket stays the caller's.
bio_st* make_socket_bio(int descriptor);

}  // namespace troupe
