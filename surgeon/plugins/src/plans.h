// How a shape is mapped to threads: separate from operators.h for the tests and for tuning.
#pragma once

#include "kernels.cuh"

namespace surgeon
{

struct ColumnsPlan
{
    int pack_bytes; // 16, 8 or one element; divides the inner extent
    int packs;      // a thread's packs in registers: 1, 2, 4, 8, 16, 32
    int x, y;       // the block: columns by channel groups
};

struct RowsPlan
{
    int packs;   // a thread's vectors in registers: 4, 8, 16
    int lanes;   // threads that share a row in a block
    int threads; // of a block
    int blocks;  // that share a row: above 1 it is a cluster; 0: the row does not fit on chip
    int stages;  // 0: a cluster a row; else clusters that stay, with so many rows on their way in shared memory
};

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner);
RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on);

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_instance_norm(RowsPlan const& plan, Type type, void const* x, void* y, int64_t rows,
    int64_t length, InstanceNormParams const& params, void* workspace, cudaStream_t stream);

} // namespace surgeon
