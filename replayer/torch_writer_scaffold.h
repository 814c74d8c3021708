// The part of a replay for torchrun that is the same in all of them. Implementation of
// torch_writer.h.
#ifndef GORDIAN_REPLAYER_TORCH_WRITER_SCAFFOLD_H_
#define GORDIAN_REPLAYER_TORCH_WRITER_SCAFFOLD_H_

#include <string_view>

namespace gordian::replayer {

// In front of the ranks' functions; needs BUFFER_BYTES.
extern const std::string_view kTorchBeforeRanks;
// Behind them; needs RANKS, the list of the ranks' functions.
extern const std::string_view kTorchAfterRanks;

// What only some need; each is defined where `call` occurs.
struct TorchHelper {
  std::string_view call;
  std::string_view text;
};
extern const TorchHelper kTorchHelpers[];
extern const int kTorchHelperCount;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_TORCH_WRITER_SCAFFOLD_H_
