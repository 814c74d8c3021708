// Reads a file piece by piece, plain or packed with gzip, so that a trace of a gigabyte is never in
// memory as a whole.
#ifndef GORDIAN_ANALYZER_IMPORTERS_PACKED_INPUT_H_
#define GORDIAN_ANALYZER_IMPORTERS_PACKED_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian::importers {

// Writes at most `most` bytes to `into` and returns how many; 0: the input has ended.
using Pull = std::function<size_t(char* into, size_t most)>;

// The pieces of a text in memory, which must outlive it.
Pull PullText(std::string_view text);

// Not thread-safe.
class PackedInput {
 public:
  // Errors name `path`: it cannot be opened or is no regular file.
  static StatusOr<PackedInput> Open(const std::string& path);
  PackedInput(PackedInput&&) noexcept;
  PackedInput& operator=(PackedInput&&) noexcept;
  ~PackedInput();

  // Ends early on an error, which status() then names: the disk, a damaged gzip stream, or one that
  // unpacks to more than MostContentsOfFile (common/budget.h).
  Pull Puller();
  const Status& status() const;

 private:
  struct File;
  explicit PackedInput(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
};

// The first bytes of a file, unpacked; "" where there are none or they cannot be unpacked.
std::string PackedBeginning(const std::string& path, size_t most);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_PACKED_INPUT_H_
