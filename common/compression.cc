#include "common/compression.h"

#include <zstd.h>

#include <memory>
#include <mutex>

namespace gordian {
namespace {

// Records resemble each other so much that the fastest level suffices.
constexpr int kLevel = 1;

// Lends contexts, since creating one takes longer than packing a small frame. A context has tables of
// up to a MiB: a server has a thread for each node, so a context for each thread would fill its
// memory and the processor's caches.
template <typename Context, Context* (*kCreate)(), size_t (*kFree)(Context*)>
class Contexts {
 public:
  struct Return {
    void operator()(Context* context) const { Shared().Take(context); }
  };
  using Lent = std::unique_ptr<Context, Return>;

  // Null: zstd has no memory.
  static Lent Borrow() { return Lent(Shared().Give()); }

 private:
  // Never destroyed: a thread may still compress while the process exits.
  static Contexts& Shared() {
    static Contexts* const contexts = new Contexts;
    return *contexts;
  }

  // The one returned last: its tables are the likeliest to be in a cache.
  Context* Give() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Context* const context = idle_.back();
        idle_.pop_back();
        return context;
      }
    }
    return kCreate();
  }

  void Take(Context* context) {
    {
      const std::lock_guard lock(mutex_);
      if (idle_.size() < kMostIdle) {
        idle_.push_back(context);
        return;
      }
    }
    kFree(context);
  }

  static constexpr size_t kMostIdle = 16;

  std::mutex mutex_;
  std::vector<Context*> idle_;
};

using Compressors = Contexts<ZSTD_CCtx, ZSTD_createCCtx, ZSTD_freeCCtx>;
using Decompressors = Contexts<ZSTD_DCtx, ZSTD_createDCtx, ZSTD_freeDCtx>;

}  // namespace

Status Compress(std::string_view contents, std::string* out) {
  const size_t before = out->size();
  out->resize(before + ZSTD_compressBound(contents.size()));
  const Compressors::Lent context = Compressors::Borrow();
  if (context == nullptr) {
    out->resize(before);
    return Status::Unavailable("compression failed: no memory");
  }
  const size_t n = ZSTD_compressCCtx(context.get(), out->data() + before, out->size() - before,
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
  const Decompressors::Lent context = Decompressors::Borrow();
  if (context == nullptr) {
    *why = "decompression failed: no memory";
    return false;
  }
  const size_t n =
      ZSTD_decompressDCtx(context.get(), out->data(), out->size(), frame.data(), frame.size());
  if (ZSTD_isError(n) != 0) {
    *why = std::string("decompression failed: ") + ZSTD_getErrorName(n);
    return false;
  }
  out->resize(n);
  return true;
}

}  // namespace gordian
