// Predictions as SARIF 2.1.0 (OASIS), the form in which code scanners take findings: GitHub's shows
// each at the lines of its calls.
#ifndef GORDIAN_CLI_PREDICT_SARIF_H_
#define GORDIAN_CLI_PREDICT_SARIF_H_

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gordian::cli {

struct SarifPlace {
  std::string file;  // as the debug information or Python gives it; empty: unknown
  int line = 0;
  std::string text;  // what happens there
};

struct SarifFinding {
  std::string check;
  std::string message;
  std::string advice;
  std::set<std::string> sites;     // by which it is the same in another run
  std::vector<SarifPlace> places;  // the first is where it is shown
  std::optional<bool> known;       // whether a baseline has it, if there is one
};

// Files below `root`, an absolute folder, are named from there, as code scanners want it.
std::string SarifOf(const std::vector<SarifFinding>& findings, const std::filesystem::path& root);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PREDICT_SARIF_H_
