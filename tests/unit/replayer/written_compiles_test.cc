// The compiler finds nothing to warn of in any written program: of samples, of small hangs whole,
// minimized and mended, and of random jobs. All go into one file, each in a namespace of its own, as
// the headers take most of the time.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "replayer/record/not_reached.h"
#include "replayer/reduce/fixes.h"
#include "replayer/reduce/minimizer.h"
#include "replayer/verify/witness.h"
#include "replayer/write/cxx_writer.h"
#include "tests/unit/replayer/hand_made.h"
#include "tests/unit/replayer/hang_shapes.h"
#include "tests/unit/replayer/random_schedules.h"

namespace gordian::replayer {
namespace {

// Programs in one file.
class Programs {
 public:
  void Add(Schedule schedule, bool benchmark = false) {
    if (!benchmark) AddNotReached(&schedule);  // as `gordian replay` does
    ASSERT_TRUE(Check(schedule).empty()) << Check(schedule).front();
    AddText(
        WriteCxx(schedule, {.file = "x.cc", .fix = "", .verified = "", .benchmark = benchmark}));
  }

  void AddText(const std::string& text) {
    body_ += "namespace program" + std::to_string(++count_) + " {\n";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#include")) {
        includes_.insert(line);
      } else {
        body_ += line + "\n";
      }
    }
    body_ += "}\n";
  }

  void AddWithFixes(const Schedule& schedule) {
    Add(schedule);
    for (const Fix& fix : ProposeFixes(schedule)) Add(fix.schedule);
  }

  // What the compiler prints.
  std::string Warnings() const {
    const std::string source = ::testing::TempDir() + "/gordian_written.cc", log = source + ".log";
    std::ofstream file(source);
    for (const std::string& line : includes_) file << line << "\n";
    file << body_ << "int main() {}\n";
    file.close();
    const std::string command = "g++ -std=c++17 -O0 -Wall -Wextra -Werror -pthread -c " + source +
                                " -o " + source + ".o -isystem " + GORDIAN_CUDA_INCLUDE +
                                " -isystem " + GORDIAN_NCCL_INCLUDE + " >" + log + " 2>&1";
    const int code = system(command.c_str());
    std::ifstream output(log);
    std::stringstream text;
    text << output.rdbuf();
    return (code == 0 ? "" : "the compiler failed\n") + text.str();
  }
  int count() const { return count_; }

 private:
  std::set<std::string> includes_;
  std::string body_;
  int count_ = 0;
};

void AddMinimized(const Schedule& whole, Programs* programs) {
  programs->Add(CutToWitness(whole));
  const MinimizeReport report = Minimize(whole);
  if (report.refused.empty()) programs->AddWithFixes(report.schedule);
}

TEST(Written, CompilesWithoutAWarning) {
  Programs programs;
  for (const testing::Sample& sample : testing::Samples()) {
    programs.Add(sample.schedule);
    AddMinimized(sample.schedule, &programs);
  }
  programs.Add(testing::Steps(), /*benchmark=*/true);
  for (const testing::HangShape& shape : testing::HangShapes()) {
    programs.Add(Bury(shape, /*twin=*/true, 4, 1));
    AddMinimized(Bury(shape, /*twin=*/false, 4, 1), &programs);
  }
  for (uint64_t number = 0; number < 40; ++number)
    AddMinimized(testing::RandomSchedule(number), &programs);
  EXPECT_GT(programs.count(), 100);
  EXPECT_EQ(programs.Warnings().substr(0, 4000), "");
}

// What the test above rests on: a variable that nothing uses is an error there.
TEST(Written, AWarningIsFound) {
  Programs programs;
  programs.AddText("void Rank() { int unused = 1; }\n");
  EXPECT_NE(programs.Warnings().find("unused"), std::string::npos);
}

}  // namespace
}  // namespace gordian::replayer
