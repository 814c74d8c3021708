#include "tests/corpus/executor/program.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace corpus {
namespace {

constexpr size_t kAlign = 256;

std::vector<int> Numbers(const std::string& text) {
  std::vector<int> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) out.push_back(std::atoi(part.c_str()));
  return out;
}

Operation ParseOperation(std::istringstream& in, const std::string& label, int line) {
  Operation op;
  op.label = label;
  op.line = line;
  in >> op.kind;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) Fail("line " + std::to_string(line) + ": no '=' in " + word);
    op.values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  op.room = static_cast<size_t>(op.Number("room", 0));
  return op;
}

}  // namespace

void Fail(const std::string& what) {
  std::fprintf(stderr, "corpus: %s\n", what.c_str());
  std::_Exit(7);
}

const std::string& Operation::Text(const char* name) const {
  auto found = values.find(name);
  if (found == values.end()) Fail("line " + std::to_string(line) + ": no " + name);
  return found->second;
}

long Operation::Number(const char* name) const { return std::atol(Text(name).c_str()); }

Program Load(const char* path) {
  std::ifstream file(path);
  if (!file) Fail(std::string("cannot read ") + path);
  Program program;
  RankProgram* rank = nullptr;
  std::vector<Operation>* thread = nullptr;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    std::istringstream in(text);
    std::string word;
    if (!(in >> word) || word[0] == '#') continue;
    if (word == "ranks") {
      int count = 0;
      in >> count;
      program.ranks.resize(static_cast<size_t>(count));
    } else if (word == "comm") {
      Communicator comm;
      std::string members;
      in >> comm.name >> members;
      comm.members = Numbers(members);
      program.comms.push_back(comm);
    } else if (word == "rank") {
      size_t index = 0;
      in >> index;
      rank = &program.ranks.at(index);
      thread = nullptr;
    } else if (word == "blocking" && rank != nullptr) {
      int stream = 0;
      in >> stream;
      rank->blocking_streams[stream] = true;
    } else if (word == "thread" && rank != nullptr) {
      thread = &rank->threads.emplace_back();
    } else if (word == "environment") {
      continue;  // for who starts this program
    } else if (thread != nullptr) {
      thread->push_back(ParseOperation(in, word, number));
    } else {
      Fail("line " + std::to_string(number) + ": " + text);
    }
  }
  if (program.ranks.empty()) Fail("no ranks");
  for (RankProgram& each : program.ranks) {
    size_t offset = 0;
    for (std::vector<Operation>& operations : each.threads) {
      for (Operation& op : operations) {
        op.room = (op.room + kAlign - 1) / kAlign * kAlign;
        op.offset = offset;
        offset += 2 * op.room;
      }
    }
  }
  return program;
}

}  // namespace corpus
