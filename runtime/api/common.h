// What the C API's files share, whatever the backend.
#ifndef GORDIAN_RUNTIME_API_COMMON_H_
#define GORDIAN_RUNTIME_API_COMMON_H_

#include <string>

#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

// The head that every struct of the API has: written by a header that this library understands.
template <typename Struct>
bool HasHead(const Struct* s) {
  return s != nullptr && s->magic == GRT_MAGIC && s->size >= sizeof(Struct);
}

// A copy with what was left out filled in. False: it cannot be read.
inline bool ReadConfig(const grtConfig_t* given, const grtConfig_t& defaults, grtConfig_t* config) {
  *config = defaults;
  if (given == nullptr) return true;
  if (!HasHead(given)) return false;
  *config = *given;
  return true;
}

// Why this thread's last call that made no communicator failed; empty: its result says all.
std::string& LastErrorText();

// Copies a text and its end, cut to `bytes`. The body of grtCommErrorText.
grtResult_t CopyText(const std::string& from, char* text, size_t bytes);

// The name of the shared memory of a communicator.
std::string NameOf(const grtUniqueId& id);

// Runs a call's body and turns exceptions (no memory, no thread) into a result.
template <typename Body>
grtResult_t Guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {  // std::bad_alloc, std::system_error
    return grtSystemError;
  }
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_API_COMMON_H_
