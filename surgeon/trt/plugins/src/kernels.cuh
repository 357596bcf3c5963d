// The plain CUDA kernels behind surgeon's TensorRT plugins. Nothing here knows of TensorRT, so they are tested alone.
//
// Conventions
//   * Pointers to tensors are 16-byte aligned (every device allocator gives more); a launcher returns
//     cudaErrorMisalignedAddress otherwise.
//   * "Vector" means the 16 bytes that one thread moves at a time: 4 floats or 8 halves.
//   * Sums and statistics are fp32 whatever the tensor's type.
//   * A launcher returns the launch's status and never synchronises; it uses only the caller's stream and workspace.
//   * Grids are sized by ceiling division: the last block is partly idle, no element is left out.
#pragma once

#include "kernels/common.cuh"
#include "kernels/instance_norm.cuh"
#include "kernels/l2_norm_columns.cuh"
#include "kernels/l2_norm_images.cuh"
#include "kernels/l2_norm_rows.cuh"
#include "kernels/l2_norm_strips.cuh"
#include "kernels/l2_norm_tiles.cuh"
#include "kernels/leaky_relu.cuh"
#include "kernels/reflect_pad.cuh"
