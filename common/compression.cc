#include "common/compression.h"

#include <zstd.h>

#include <memory>

namespace gordian {
namespace {

// Records resemble each other so much that the fastest level suffices.
constexpr int kLevel = 1;

// Creating a context takes longer than packing a small frame, so each thread keeps one.
struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

ZSTD_DCtx* Decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

ZSTD_CCtx* Compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  return context.get();
}

}  // namespace

Status Compress(std::string_view contents, std::string* out) {
  const size_t before = out->size();
  out->resize(before + ZSTD_compressBound(contents.size()));
  ZSTD_CCtx* const context = Compressor();
  if (context == nullptr) {
    out->resize(before);
    return Status::Unavailable("compression failed: no memory");
  }
  const size_t n = ZSTD_compressCCtx(context, out->data() + before, out->size() - before,
                                     contents.data(), contents.size(), kLevel);
  if (ZSTD_isError(n) != 0) {
    out->resize(before);
    return Status::Unavailable(std::string("compression failed: ") + ZSTD_getErrorName(n));
  }
  out->resize(before + n);
  return Status::Ok();
}

std::optional<uint64_t> ContentsOf(std::string_view frame) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) return std::nullopt;
  return claimed;
}

void Pad(uint64_t at_least, std::string* frame) {
  if (frame->size() >= at_least) return;
  const uint64_t length = at_least - frame->size();
  // A skippable frame: magic number, length, and so many bytes.
  for (int i = 0; i < 4; ++i) *frame += static_cast<char>(ZSTD_MAGIC_SKIPPABLE_START >> (8 * i));
  for (int i = 0; i < 4; ++i) *frame += static_cast<char>(length >> (8 * i));
  frame->resize(frame->size() + length);
}

bool Decompress(std::string_view frame, size_t most, std::vector<char>* out, std::string* why) {
  const std::optional<uint64_t> claimed = ContentsOf(frame);
  if (!claimed) {
    *why = "not a zstd frame";
    return false;
  }
  if (*claimed > most) {
    *why = "chunk claims to hold " + std::to_string(*claimed) + " bytes";
    return false;
  }
  out->resize(static_cast<size_t>(*claimed));
  ZSTD_DCtx* const context = Decompressor();
  if (context == nullptr) {
    *why = "decompression failed: no memory";
    return false;
  }
  const size_t n =
      ZSTD_decompressDCtx(context, out->data(), out->size(), frame.data(), frame.size());
  if (ZSTD_isError(n) != 0) {
    *why = std::string("decompression failed: ") + ZSTD_getErrorName(n);
    return false;
  }
  out->resize(n);
  return true;
}

}  // namespace gordian
