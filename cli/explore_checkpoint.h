// The file from which `gordian explore` goes on: a line that says what it is, with the CRC of the
// one behind it, so that a file that was cut or changed is no other search.
#ifndef GORDIAN_CLI_EXPLORE_CHECKPOINT_H_
#define GORDIAN_CLI_EXPLORE_CHECKPOINT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "replayer/predict/explore.h"

namespace gordian::cli {

// What a search must have in common with the one that wrote the file.
struct ExploreBounds {
  std::optional<size_t> preemptions, depth;
  size_t window = 0, max_calls = 0;
  bool threads_ordered = false;
};

struct ExploreCheckpoint {
  ExploreBounds bounds;
  std::vector<replayer::WindowState> windows;  // the last one may be unfinished
};

std::string CheckpointText(const ExploreCheckpoint& checkpoint);

// Errors, with the path: it is a link or no regular file, no such file, another version's, damaged,
// or of other bounds, which it names. Nothing: there is no file yet.
StatusOr<std::optional<ExploreCheckpoint>> ReadCheckpoint(const std::string& path,
                                                          const ExploreBounds& bounds);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_EXPLORE_CHECKPOINT_H_
