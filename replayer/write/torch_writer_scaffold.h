// The part that all replays for torchrun share. Implementation of torch_writer.h.
#ifndef GORDIAN_REPLAYER_WRITE_TORCH_WRITER_SCAFFOLD_H_
#define GORDIAN_REPLAYER_WRITE_TORCH_WRITER_SCAFFOLD_H_

#include <string_view>

namespace gordian::replayer {

// Goes before the ranks' functions; needs BUFFER_BYTES.
extern const std::string_view kTorchBeforeRanks;
// Goes after them; needs RANKS, the list of the ranks' functions.
extern const std::string_view kTorchAfterRanks;

// Helpers that only some scripts need; a script defines those whose `call` occurs in it.
struct TorchHelper {
  std::string_view call;
  std::string_view text;
};
extern const TorchHelper kTorchHelpers[];
extern const int kTorchHelperCount;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_TORCH_WRITER_SCAFFOLD_H_
