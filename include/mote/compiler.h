// What mote's headers need of a compiler, said once and first, before anything else fails.
#pragma once

#if __cplusplus < 202002L
#error "mote needs C++20: compile with -std=c++20 or a later standard"
#endif
#if defined(__clang__)
#if __clang_major__ < 16
#error "mote needs clang 16 or newer (or g++ 12 or newer): older ones lack std::source_location"
#endif
#elif defined(__GNUC__)
#if __GNUC__ < 12
#error "mote needs g++ 12 or newer (or clang 16 or newer)"
#endif
#endif
