// A corpus job as text: per rank and host thread a list of operations (tests/corpus/program.py
// writes it, and says what each line means). Plain data; Load() ends the process with a message
// where the text is not understood, since a program that is half run would pass for the truth about
// another one.
#ifndef GORDIAN_TESTS_CORPUS_EXECUTOR_PROGRAM_H_
#define GORDIAN_TESTS_CORPUS_EXECUTOR_PROGRAM_H_

#include <map>
#include <string>
#include <vector>

namespace corpus {

struct Operation {
  std::string label;  // unique within the rank, equal at all ranks for what belongs together
  std::string kind;
  std::map<std::string, std::string> values;
  int line = 0;
  size_t offset = 0;  // of its two buffers in the rank's memory
  size_t room = 0;    // bytes of each

  bool Has(const char* name) const { return values.count(name) != 0; }
  // Ends the process when there is no such value.
  const std::string& Text(const char* name) const;
  long Number(const char* name) const;
  long Number(const char* name, long otherwise) const {
    return Has(name) ? Number(name) : otherwise;
  }
};

struct Communicator {
  std::string name;
  std::vector<int> members;  // ranks of the job, in the communicator's order
};

struct RankProgram {
  std::vector<std::vector<Operation>> threads;
  std::map<int, bool> blocking_streams;  // those that are not created non-blocking
};

struct Program {
  std::vector<Communicator> comms;
  std::vector<RankProgram> ranks;
};

Program Load(const char* path);

[[noreturn]] void Fail(const std::string& what);

}  // namespace corpus

#endif  // GORDIAN_TESTS_CORPUS_EXECUTOR_PROGRAM_H_
