#include "analyzer/model/verdict/suspicion_table.h"

#include <cstddef>
#include <iterator>
#include <string_view>

#include "analyzer/model/verdict/names.h"

namespace gordian::model {
namespace {

constexpr char kNotMade[] =
    "{Culprits} {has|have} not made {operation}; {waiting} in it{instead: (*)}.";
constexpr char kNotJoined[] = "{Culprits} {has|have} not {missed}{only_instead:, it *}; {waiting}.";
constexpr char kNotJoinedEachOther[] =
    "{Culprits} have not joined what others of them wait in, {operation} for one.";
constexpr char kNotJoinedYet[] =
    "{Culprits} {has|have} not {missed} yet{only_instead:, it *}; {waiting}.";

// Patience. A rank that works, only not on what the others wait for, gets more time, and so do
// kernels, which may just be long. Many ranks over a slow network take long to find each other. At
// the end of a job some destroy while others still write their results.
constexpr SuspicionRow kRows[] = {
    {Suspicion::kRankNotJoined, LeafKind::kRunning, 1, 3, "rank-not-joined", kNotJoined,
     kNotJoinedEachOther, kNotJoinedYet},
    {Suspicion::kHostBlocked, LeafKind::kAsleep, 1, 3, "host-blocked", kNotJoined,
     kNotJoinedEachOther, kNotJoinedYet},
    {Suspicion::kInitMissing, LeafKind::kRunning, 1, 1, "communicator-init-missing", kNotMade},
    {Suspicion::kInitIdUsed, LeafKind::kUnknown, 1, 1, "communicator-init-mismatch",
     "{Culprits} {calls|call} {operation} with an id that has made a communicator before; "
     "{waiting}."},
    {Suspicion::kCallMissing, LeafKind::kRunning, 1, 1, "communicator-call-missing", kNotJoined,
     kNotJoinedEachOther},
    {Suspicion::kDestroyMissing, LeafKind::kRunning, 12, 12, "communicator-call-missing",
     kNotJoined, kNotJoinedEachOther, kNotJoinedYet},
    {Suspicion::kInitStuck, LeafKind::kDone, 12, 12, "communicator-init-stuck",
     "Every member has called {operation}, and it does not come back; {waiting} in it.", nullptr,
     "Every member has called {operation}, and it has not come back yet; {waiting} in it."},
    {Suspicion::kMemoryWait, LeafKind::kMemory, 1, 10, "memory-wait",
     "{A stream|Streams} of {culprits} {waits|wait} for a value in memory that has not come, and "
     "{operation} waits for that{victims:; *}."},
    {Suspicion::kGroupedDifferently, LeafKind::kDone, 1, 1, "mismatch-grouping",
     "The groups that {operation} is in differ: {difference}; {waiting}."},
    {Suspicion::kHostFunctionInFront, LeafKind::kKernel, 1, 1, "host-blocked",
     "{A host function|Host functions} of {culprits} {has|have} not returned, and {operation} "
     "waits for that{victims:; *}."},
    {Suspicion::kKernelInFront, LeafKind::kKernel, 10, 10, "kernel-in-front",
     "{A kernel or host function|Kernels or host functions} of {culprits} {does|do} not end, and "
     "{operation} waits for that{victims:; *}.",
     nullptr,
     "{A kernel or host function|Kernels or host functions} of {culprits} {has|have} run for long, "
     "and {operation} waits for that{victims:; *}."},
    {Suspicion::kStuckKernel, LeafKind::kDone, 3, 3, "stuck-kernel",
     "Nothing ends although {operation} has been issued by all that it needs; {waiting}.", nullptr,
     "{operation} has been issued by all that it needs, and has run for long; {waiting}."},
    {Suspicion::kEvidenceMissing, LeafKind::kUnknown, 1, 1, "evidence-missing",
     "What {waiting} for{operation: in *} was not seen{unseen:: *}."},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].suspicion != static_cast<Suspicion>(i)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Suspicion::kEvidenceMissing) + 1;
}
static_assert(InOrder(), "a row for each suspicion, in the order of the enumeration");

std::string Word(std::string_view name, const SuspicionWords& words) {
  const std::string wait =
      words.victims.empty()
          ? std::string()
          : RankList(words.victims) + (words.victims.size() == 1 ? " waits" : " wait");
  if (name == "Culprits") return RankList(words.culprits, true);
  if (name == "culprits") return RankList(words.culprits);
  if (name == "waiting") return wait.empty() ? "others wait" : wait;
  if (name == "victims") return wait;
  if (name == "operation") return words.operation;
  if (name == "missed") return words.missed.empty() ? "joined " + words.operation : words.missed;
  if (name == "instead") return words.instead;
  if (name == "only_instead") return words.culprits.size() == 1 ? words.instead : std::string();
  if (name == "difference") return words.difference;
  return words.unseen;
}

std::string Place(std::string_view place, const SuspicionWords& words) {
  if (const size_t bar = place.find('|'); bar != std::string_view::npos) {
    const bool one = words.culprits.size() == 1;
    return std::string(one ? place.substr(0, bar) : place.substr(bar + 1));
  }
  const size_t colon = place.find(':');
  const std::string word = Word(place.substr(0, colon), words);
  if (colon == std::string_view::npos || word.empty()) return word;
  std::string text(place.substr(colon + 1));
  return text.replace(text.find('*'), 1, word);
}

}  // namespace

const SuspicionRow& RowOf(Suspicion suspicion) { return kRows[static_cast<size_t>(suspicion)]; }

std::string Sentence(const SuspicionRow& row, const SuspicionWords& words, bool early) {
  const bool each_other = words.victims.empty() && words.culprits.size() != 1;
  std::string_view rest = early ? row.sentence_early
                          : each_other && row.sentence_no_victims != nullptr
                              ? row.sentence_no_victims
                              : row.sentence;
  std::string text;
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    text += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = rest.find('}', open);
    text += Place(rest.substr(open + 1, close - open - 1), words);
    rest = rest.substr(close + 1);
  }
  return text;
}

}  // namespace gordian::model
