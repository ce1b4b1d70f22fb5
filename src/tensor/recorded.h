// Calls of tensor methods as they were made, for who wants them whole and not as the graph they
// become (onnx/save.cpp). While a recorder lives on this thread, the result of a method that tells
// of itself is a Given node that names the call. Nothing else changes: its value, and what goes
// backwards, is that of the graph.
#pragma once
#include "tensor/impl.h"

namespace mote {

struct RecordedCall {
  const char* what;
  std::vector<Ref> operands;  // empty where one was left out
  std::vector<int64_t> ints;
  double real = 0;
};

class CallRecorder {
 public:
  CallRecorder() : before_(current) { current = this; }
  ~CallRecorder() { current = before_; }
  CallRecorder(const CallRecorder&) = delete;
  static thread_local CallRecorder* current;
  std::vector<RecordedCall> calls;
  std::vector<uint32_t> draws;  // of random numbers: who asked for them

 private:
  CallRecorder* before_;
};

Tensor note_call(const char* what, const Tensor& result, std::span<const Tensor* const> operands,
                 std::vector<int64_t> ints, double real);

// `result`, which a call with these operands gave; `ints` makes the numbers among its arguments.
inline Tensor recorded(const char* what, const Tensor& result,
                       std::initializer_list<const Tensor*> operands) {
  if (!CallRecorder::current) [[likely]]
    return result;
  return note_call(what, result, {operands.begin(), operands.size()}, {}, 0);
}
template <class MakeInts>
Tensor recorded(const char* what, const Tensor& result,
                std::initializer_list<const Tensor*> operands, MakeInts ints, double real = 0) {
  if (!CallRecorder::current) [[likely]]
    return result;
  return note_call(what, result, {operands.begin(), operands.size()}, ints(), real);
}
// The call that a node is the result of; null: it is something else.
const RecordedCall* recorded_call(const CallRecorder& recorder, UOp node);

}  // namespace mote
