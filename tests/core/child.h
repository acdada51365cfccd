// A child process.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

/// The exit code of body() in a forked child; 99 if it throws. No check of doctest may run there.
template <class Body>
int exit_code_of(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      _exit(body());
    } catch (...) {
      _exit(99);
    }
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}
