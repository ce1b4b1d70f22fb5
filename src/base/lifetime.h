// When the library's own objects begin and end. A program may compute before main (static
// constructors), after it (static destructors, atexit), in a thread that is ending, and in a plugin
// that another part of it wants to close. So nothing here has a destructor that runs at exit
// (objects of the process are made with `new` and kept), the few objects made at load come first,
// and what a thread owns is made again when it is asked for after the thread's end began.
#pragma once

namespace mote {

// Objects and functions (of the second form) that are set up before a program's own.
#define MOTE_MADE_FIRST [[gnu::init_priority(200)]]
#define MOTE_RUN_FIRST [[gnu::constructor(200)]]

// Calls drop() when this thread ends; while it is ending, after what is still to be called.
void at_thread_exit(void (*drop)(void*));

// The one T of this thread: made when first asked for, deleted when the thread ends. T names the
// purpose: two users of PerThread<int> would share one int.
template <class T>
class PerThread {
 public:
  static T& get() {
    if (!value_) [[unlikely]]
      make();
    return *value_;
  }
  static T* if_made() { return value_; }

 private:
  [[gnu::noinline]] static void make() {
    value_ = new T;
    at_thread_exit([](void*) {
      T* last = value_;
      value_ = nullptr;
      delete last;
    });
  }
  static constinit thread_local inline T* value_ = nullptr;
};

// The code that calls this stays in memory to the end of the process, even if it is part of a
// library that is closed: threads, fork handlers or other libraries know its addresses.
void keep_loaded();

}  // namespace mote
