// W8i: With NCCL_LAUNCH_ORDER_IMPLICIT an operation starts after the one called before it has.
//
// Of any communicator of its device (facts/launch_order.cc). After that both run side by side: NCCL
// waits until the earlier one is launched.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void LaunchOrder(const Launch& launch, WaitNodes* nodes) {
  const uint32_t before = nodes->StartOf(launch.device_before);
  if (before != kNoNode) nodes->Wait(nodes->StartOf(launch.id), before, Reason::kLaunchOrder);
}

}  // namespace gordian::model::rules
