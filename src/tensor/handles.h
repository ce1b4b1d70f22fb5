// Who is told of the tensors that come, are read and go on this thread, while a function of them is
// captured.
#pragma once

namespace mote {

struct TensorImpl;

class HandleListener {
 public:
  virtual ~HandleListener() = default;
  virtual void made(const TensorImpl& t) = 0;
  virtual void read(const TensorImpl& t) = 0;  // its value became part of a graph
  virtual void gone(const TensorImpl& t) = 0;  // its last handle is
};
extern thread_local HandleListener* handle_listener;

}  // namespace mote
