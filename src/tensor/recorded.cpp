#include "tensor/recorded.h"

#include "tensor/given.h"

namespace mote {

thread_local CallRecorder* CallRecorder::current = nullptr;

Tensor note_call(const char* what, const Tensor& result, std::span<const Tensor* const> operands,
                 std::vector<int64_t> ints, double real) {
  std::vector<RecordedCall>& calls = CallRecorder::current->calls;
  RecordedCall& call = calls.emplace_back(RecordedCall{what, {}, std::move(ints), real});
  for (const Tensor* t : operands) call.operands.push_back(t->defined() ? node_of(*t) : Ref());
  const int64_t number[] = {static_cast<int64_t>(calls.size() - 1)};
  return given(Given::Recorded, result, {result}, number);
}

const RecordedCall* recorded_call(const CallRecorder& recorder, UOp node) {
  if (!node->is(Op::Given) || node->ints(0) != static_cast<int64_t>(Given::Recorded))
    return nullptr;
  return &recorder.calls.at(static_cast<size_t>(node->ints(1)));
}

}  // namespace mote
