// What a process says itself, in its state, of a call that others wait for and that no record shows.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_ACCOUNT_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_ACCOUNT_H_

#include <cstdint>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"

namespace gordian::model {

// Its account does not cover what graphs launched.
enum class Account : uint8_t { kSilent, kCalled, kNotCalled };
Account AccountOf(const Process&, const CommMember&, const PartRef&);

// True: its account says that it has not made the call. parent: its handle of init.parent.
bool SaysNotIn(const Process&, const Matcher&, const InitCall&, CommId parent);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_ACCOUNT_H_
