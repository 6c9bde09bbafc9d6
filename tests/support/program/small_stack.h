// Runs work on a thread with a stack of a few hundred frames, which recursion over a long graph would overflow.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>

namespace ridgepoint {

inline void on_small_stack(const std::function<void()>& work) {
  constexpr std::size_t kStackBytes = std::size_t{1} << 20;
  struct Task {
    const std::function<void()>& work;
    std::exception_ptr failure;
  } task{work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const auto body = [](void* argument) -> void* {
    auto& given = *static_cast<Task*>(argument);
    try {
      given.work();
    } catch (...) {
      given.failure = std::current_exception();
    }
    return nullptr;
  };
  const int error = pthread_create(&thread, &attributes, body, &task);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("no thread could be started");
  pthread_join(thread, nullptr);
  if (task.failure) std::rethrow_exception(task.failure);
}

}  // namespace ridgepoint
