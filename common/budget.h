// What a reader takes at most of what others wrote: of bytes, before and after expansion, of memory
// and of depth. Checked before memory is taken; past a bound the reader says in one line which file,
// which part, which bound. Far above what gordian writes itself: traces of real jobs expand ten
// times, their chunks hold 256 KiB or one large message. docs/security.md lists the bounds.
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

// A frame of a trace or spool: compressed, and what it holds whatever its size.
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;
inline constexpr uint64_t kMaxFrameContents = 256ull << 20;

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

// A message from the network.
inline constexpr int kMaxMessageBytes = 64 << 20;
// Messages, texts and list items within one message. Each becomes an object of some tens of bytes,
// however few bytes it came in: two, at the least.
inline constexpr size_t kMaxMessageParts = 1 << 20;

// A whole file of JSON, TOML and the like: a verdict of 16,384 ranks has 20 MB.
inline constexpr uint64_t kMostFileBytes = 256ull << 20;

// Lists and objects of JSON. No file or answer of gordian nests deeper. To copy or print a value
// recurses as deep as it nests, so a file of brackets alone would overflow the stack.
inline constexpr size_t kMostNesting = 64;

// Dots of a TOML key: the parser makes a table of each part, and recurses as deep to destroy it.
inline constexpr size_t kMostDots = 16;

// A dump of PyTorch's Flight Recorder, and the memory that its values take.
inline constexpr uint64_t kMostDumpBytes = 512ull << 20;
inline constexpr uint64_t kMostPlainBytes = 1ull << 30;

// No message of a trace has more.
inline constexpr int kMostFields = 36;

// Whether a message of this type, in these bytes, takes at most `most` bytes of memory; a rough
// count from above. Makes nothing of it. What is malformed ends the count: the parser will say so.
bool FitsMemory(std::string_view bytes, const google::protobuf::Descriptor& type, uint64_t most,
                std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_BUDGET_H_
