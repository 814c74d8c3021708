// Findings and predictions as SARIF 2.1.0 (OASIS), the form in which code scanners take them:
// GitHub's shows each at the lines of its calls.
#ifndef GORDIAN_ANALYZER_EXPORTERS_SARIF_WRITER_H_
#define GORDIAN_ANALYZER_EXPORTERS_SARIF_WRITER_H_

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gordian::exporters {

struct SarifPlace {
  std::string file;  // as the debug information or Python gives it; empty: unknown
  int line = 0;
  std::string text;  // what happens there
};

struct SarifFinding {
  std::string check;
  std::string title;            // what the check is about
  std::string level = "error";  // or "warning", "note"
  std::string message;
  std::string advice;
  std::set<std::string> sites;     // by which it is the same in another run
  std::vector<SarifPlace> places;  // the first is where it is shown
  std::optional<bool> known;       // whether a baseline has it, if there is one
};

// Files below `root`, an absolute folder, are named from there, as code scanners want it.
std::string SarifOf(const std::vector<SarifFinding>& findings, const std::filesystem::path& root);

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_SARIF_WRITER_H_
