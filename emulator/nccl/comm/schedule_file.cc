#include "emulator/nccl/comm/schedule_file.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include "emulator/engine/process/job_state.h"

namespace gordian::emu::nccl {
namespace {

// Splits at blanks; quoted text is one word and keeps its first quote. Returns false for an
// unclosed quote.
bool Split(const std::string& line, std::vector<std::string>* words) {
  words->clear();
  for (size_t at = 0; at < line.size();) {
    char c = line[at];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
    } else if (c == '#') {
      return true;
    } else if (c == '"') {
      size_t end = line.find('"', at + 1);
      if (end == std::string::npos) return false;
      words->push_back(line.substr(at, end - at));
      at = end + 1;
    } else {
      size_t end = std::min(line.find_first_of(" \t\r#", at), line.size());
      words->push_back(line.substr(at, end - at));
      at = end;
    }
  }
  return true;
}

bool Number(const std::string& word, uint64_t least, uint64_t* number) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
  return error == std::errc() && end == word.data() + word.size() && *number >= least &&
         *number <= INT_MAX;
}

bool ParseStep(const std::vector<std::string>& words, ScheduleStep* step) {
  uint64_t rank = 0, comm = 0;
  if (words.size() < 4 || words[0] != "rank" || !Number(words[1], 0, &rank)) return false;
  step->rank = static_cast<int>(rank);
  if (words.size() == 4) return words[2] == "call" && Number(words[3], 1, &step->number);
  if (words.size() != 6) return false;
  if (words[2] == "thread") {
    return Number(words[3], 1, &step->thread) && words[4] == "call" &&
           Number(words[5], 1, &step->number);
  }
  if (words[2] != "comm" || words[4] != "op" || !Number(words[5], 1, &step->number)) return false;
  step->on_comm = true;
  if (words[3][0] == '"') {
    step->comm_name = words[3].substr(1);
    return !step->comm_name.empty();
  }
  if (!Number(words[3], 0, &comm)) return false;
  step->comm = static_cast<int64_t>(comm);
  return true;
}

}  // namespace

bool ParseSchedule(const std::string& text, std::vector<ScheduleStep>* steps, std::string* error) {
  std::vector<ScheduleStep> parsed;
  std::vector<std::string> words;
  bool has_header = false;
  int line_number = 0;
  auto refuse = [&](const std::string& why) {
    *error = "line " + std::to_string(line_number) + ": " + why;
    steps->clear();
    return false;
  };
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    ++line_number;
    if (!Split(line, &words)) return refuse("a quote is not closed");
    if (words.empty()) continue;
    if (!has_header) {
      if (words != std::vector<std::string>{"gordian-schedule", "1"}) {
        return refuse("the first line has to be 'gordian-schedule 1'");
      }
      has_header = true;
      continue;
    }
    ScheduleStep step;
    if (!ParseStep(words, &step)) return refuse("not understood: " + line);
    if (std::find(parsed.begin(), parsed.end(), step) != parsed.end()) {
      return refuse("a step that was there already: " + line);
    }
    if (parsed.size() == kMaxScheduleSteps) return refuse("too many steps");
    parsed.push_back(step);
  }
  if (!has_header) return refuse("the first line has to be 'gordian-schedule 1'");
  *steps = std::move(parsed);
  return true;
}

}  // namespace gordian::emu::nccl
