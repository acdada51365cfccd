// Everything a program needs, in one include.
#pragma once

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
