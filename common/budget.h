// What a reader takes at most of what others wrote: of bytes after expansion, and of memory. Checked
// before memory is taken; past a bound the reader says in one line which file, which part, which
// bound. Far above what gordian writes itself: traces of real jobs expand ten times, their chunks
// hold 256 KiB or one large message.
#ifndef GORDIAN_COMMON_BUDGET_H_
#define GORDIAN_COMMON_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
}

namespace gordian {

// One zstd frame of `packed` bytes may hold so many.
inline constexpr uint64_t kFrameFree = 1ull << 20;
inline constexpr uint64_t kFrameRatio = 128;
constexpr uint64_t MostContents(uint64_t packed) { return kFrameFree + kFrameRatio * packed; }

// All frames of a file together, up to a place in it, may hold so many.
inline constexpr uint64_t kFileFree = 32ull << 20;
inline constexpr uint64_t kFileRatio = 64;
constexpr uint64_t MostContentsOfFile(uint64_t bytes) { return kFileFree + kFileRatio * bytes; }

// One message, made of what a frame of `packed` bytes holds.
constexpr uint64_t MostMessageMemory(uint64_t packed) { return (160ull << 20) + 64 * packed; }

// No message of a trace has more.
inline constexpr int kMostFields = 36;

// Whether a message of this type, in these bytes, takes at most `most` bytes of memory; a rough
// count from above. Makes nothing of it. What is malformed ends the count: the parser will say so.
bool FitsMemory(std::string_view bytes, const google::protobuf::Descriptor& type, uint64_t most,
                std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_BUDGET_H_
