// Everything a program needs, in one include.
#pragma once

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/autograd/functions/view.h"
#include "ringlet/autograd/gradcheck.h"
#include "ringlet/autograd/node.h"
#include "ringlet/autograd/variable.h"
#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"
#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/random.h"
#include "ringlet/core/tensor.h"
