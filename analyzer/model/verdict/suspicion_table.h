// What is suspected of a wait that lasts without a proof: by what the wait ends at, how long it has
// to last, which check says so, and in which words.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_SUSPICION_TABLE_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_SUSPICION_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/waits/wait_nodes.h"

namespace gordian::model {

enum class Suspicion : uint8_t {
  kRankNotJoined,
  kHostBlocked,
  kInitMissing,
  kInitIdUsed,
  kCallMissing,
  kDestroyMissing,
  kInitStuck,
  kMemoryWait,
  kGroupedDifferently,
  kHostFunctionInFront,
  kKernelInFront,
  kStuckKernel,
  kEvidenceMissing,
};

struct SuspicionRow {
  Suspicion suspicion;
  LeafKind end;               // what the wait ends at; kDone: nothing is left to wait for
  uint64_t patience;          // times ModelOptions::suspect_after_ns
  uint64_t patience_working;  // ... while that end still works, only not on what is waited for
  const char* check;
  // {name}: one of SuspicionWords. {a|b}: a of one culprit, b of several. {name:text}: the text,
  // with the word for *, unless the word is empty.
  const char* sentence;
  const char* sentence_no_victims = nullptr;  // several culprits who wait for each other
  // What is said, as merely possible, from suspect_after_ns until the patience is over: that the job
  // is slow there, without blame. Null: nothing.
  const char* sentence_early = nullptr;
};

const SuspicionRow& RowOf(Suspicion);

// What a sentence is filled with: {Culprits}, {culprits}, {waiting} ("rank 1 waits", "others
// wait"), {victims} (as waiting; empty without victims), {only_instead} (instead, of one culprit
// alone) and the texts below.
struct SuspicionWords {
  std::vector<int> culprits;
  std::vector<int> victims;
  std::string operation;
  std::string missed;      // what the culprits have not done; empty: joined the operation
  std::string instead;     // what the culprits do
  std::string difference;  // between groups
  std::string unseen;
};

std::string Sentence(const SuspicionRow&, const SuspicionWords&, bool early = false);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_SUSPICION_TABLE_H_
