#include "simulator/sampling/counter_random.h"

namespace gordian::simulator {

QuickLog::QuickLog() {
  for (int i = 0; i < kEntries; ++i) {
    const double middle = 1 + (i + 0.5) / kEntries;
    entries_[i] = {1 / middle, std::log(middle)};
  }
}

const QuickLog& QuickLog::Table() {
  static const QuickLog table;
  return table;
}

}  // namespace gordian::simulator
