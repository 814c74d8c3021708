// Reads the lines around the call sites of a verdict, for the page that shows them.
//
// Paths come from a watched process. Reads only regular files with the ending of a source file, on
// this machine, and a few lines of each: the page shows them to readers of the verdict.
#ifndef GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_
#define GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::web {

struct SourceLines {
  std::string site;  // as reports name it
  std::string path;
  int line = 0;        // the call's, from 1
  int first_line = 0;  // of `lines`
  std::vector<std::string> lines;
};

// Reads the lines around the first few call sites that the verdict names, and leaves out those that
// it cannot read.
std::vector<SourceLines> ReadSourceLines(const model::Verdict& verdict, analyzer::CallSites* sites);

// The lines around `line` of a file. Empty: it may not or cannot be read, or has no such line.
SourceLines ReadAround(const std::string& path, int line);

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_
