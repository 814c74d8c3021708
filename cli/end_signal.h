// SIGINT, SIGTERM and SIGHUP, for verbs that end in order, after their cleanup.
#ifndef GORDIAN_CLI_END_SIGNAL_H_
#define GORDIAN_CLI_END_SIGNAL_H_

namespace gordian::cli {

enum class SecondSignal { kWaits, kEnds };  // kEnds: it ends the process at once

// From here on EndSignal() says which came last.
void TakeEndSignals(SecondSignal second);

int EndSignal();  // 0: none

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_END_SIGNAL_H_
