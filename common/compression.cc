#include "common/compression.h"

#include <zstd.h>

namespace gordian {
namespace {

// Records are much alike: the quickest level finds what there is to find.
constexpr int kLevel = 1;

}  // namespace

Status Compress(std::string_view contents, std::string* out) {
  const size_t before = out->size();
  out->resize(before + ZSTD_compressBound(contents.size()));
  const size_t n = ZSTD_compress(out->data() + before, out->size() - before, contents.data(),
                                 contents.size(), kLevel);
  if (ZSTD_isError(n) != 0) {
    out->resize(before);
    return Status::Unavailable(std::string("compression failed: ") + ZSTD_getErrorName(n));
  }
  out->resize(before + n);
  return Status::Ok();
}

bool Decompress(std::string_view frame, size_t most, std::vector<char>* out, std::string* why) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) {
    *why = "not a zstd frame";
    return false;
  }
  if (claimed > most) {
    *why = "chunk claims " + std::to_string(claimed) + " bytes";
    return false;
  }
  out->resize(static_cast<size_t>(claimed));
  const size_t n = ZSTD_decompress(out->data(), out->size(), frame.data(), frame.size());
  if (ZSTD_isError(n) != 0) {
    *why = std::string("decompression failed: ") + ZSTD_getErrorName(n);
    return false;
  }
  out->resize(n);
  return true;
}

}  // namespace gordian
