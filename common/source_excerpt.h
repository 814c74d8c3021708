// A few lines of a source file around a call: read from this machine's disk, or told by another
// one.
//
// Paths come from watched processes. Reads only regular files with the ending of a source file, and
// a few lines of each: who sees the verdict sees these lines.
#ifndef GORDIAN_COMMON_SOURCE_EXCERPT_H_
#define GORDIAN_COMMON_SOURCE_EXCERPT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace gordian {

// Of how many call sites of a verdict the lines are shown, and may be asked for at once.
inline constexpr size_t kMostExcerpts = 64;
inline constexpr size_t kMostExcerptPath = 4096;

struct SourceExcerpt {
  std::string path;
  int line = 0;        // the call's, from 1
  int first_line = 0;  // of `lines`
  std::vector<std::string> lines;
};

// The lines around `line` of a file. No lines: it may not or cannot be read, or has no such line.
SourceExcerpt ReadAround(const std::string& path, int line);

// Makes an excerpt that somebody else read one that ReadAround could have returned: cuts what is
// too long, makes text printable, and drops lines that do not lie around the call.
void MakeHarmless(SourceExcerpt* excerpt);

}  // namespace gordian

#endif  // GORDIAN_COMMON_SOURCE_EXCERPT_H_
