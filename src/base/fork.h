// What a child of fork() may do. It has one thread, and memory as it was at the fork: locks that
// another thread held are held for ever, and what that thread was changing is half done.
// So threads say when they are inside the library. A child that was forked while no other thread
// was may use everything; in another one every call is an error.
#pragma once

namespace mote {

// This thread is inside the library until it is destroyed. Scopes nest. Opening the
// outermost one waits while another thread forks. Costs one atomic exchange.
class InsideLibrary {
 public:
  InsideLibrary();
  ~InsideLibrary();
  InsideLibrary(const InsideLibrary&) = delete;
};

// Is this a child that was forked amid another thread's call? Then nothing may be touched.
bool forked_amid_call();
// A User error if it is.
void check_not_forked_amid_call();

}  // namespace mote
