// How often the nodes of a job are asked for rounds.
#ifndef GORDIAN_ANALYZER_INGEST_ROUND_PACE_H_
#define GORDIAN_ANALYZER_INGEST_ROUND_PACE_H_

#include <chrono>

namespace gordian::analyzer {

struct RoundPace {
  std::chrono::milliseconds busy{100};       // something is unfinished
  std::chrono::milliseconds confirming{20};  // from the end of a round that wants another
  // The same once the preemptive runtime takes part: it resolves cycles by itself, in tens of
  // milliseconds on busy processors.
  std::chrono::milliseconds confirming_runtime{1000};
  std::chrono::milliseconds idle{500};  // nothing is unfinished
  // A round leaves out a node that sends nothing for so long.
  std::chrono::milliseconds round_timeout{2000};
  // The same of one that goes on sending what it recorded before it can answer, as all do when the
  // analyzer is slower than the job. Only a round that has their answers is about one time: a round
  // without them shows an old state of theirs beside a new one of others.
  std::chrono::milliseconds round_patience{10000};
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_ROUND_PACE_H_
