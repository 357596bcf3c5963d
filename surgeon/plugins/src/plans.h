// How a shape is mapped to threads: separate from operators.h for the tests and for tuning.
#pragma once

#include "kernels.cuh"
#include "operators.h"

namespace surgeon
{

struct ColumnsPlan
{
    int pack_bytes; // 16, 8 or one element; divides the inner extent
    int packs;      // a thread's packs in registers: 1, 2, 4, 8, 16, 32
    int x, y;       // the block: columns by channel groups
};

// Channels spread over a cluster: see l2norm_cluster_columns_kernel.
struct ClusterColumnsPlan
{
    int packs;  // channels a thread: 4, 8, 16
    int x, y;   // the block: vectors by channels; y is a multiple of 8
    int blocks; // of a cluster; 0: this mapping does not do
};

struct RowsPlan
{
    int packs;   // a thread's vectors in registers: 4, 8, 16; 0: the row does not fit a block's
    int lanes;   // threads that share a row in a block
    int threads; // of a block
    int blocks;  // that share a row: above 1 they are a cluster, their shares in shared memory; 0: x is read twice
    int stages;  // that a block has for shares: 1 or 2 in a cluster; with no blocks, 0 where x is read twice from memory,
                 // above it where it is read the second time from the L2 cache
};

struct PadPlan
{
    int rows, packs; // a thread's segments of rows, and its vectors of each: 1 and 2, 2 and 1, 1 and 4;
                     // 0: a block of threads for a few rows
    bool wide;       // 64-bit offsets
};

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner);
ClusterColumnsPlan plan_cluster_columns(int64_t channels, int64_t inner, int x, int packs, Device const& on);
RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on);

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_l2norm_cluster_columns(ClusterColumnsPlan const& plan, Type type, void const* x, Scalars weight,
    void* y, int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_instance_norm(RowsPlan const& plan, Type type, void const* x, void* y, int64_t rows,
    int64_t length, InstanceNormParams const& params, void* workspace, cudaStream_t stream);

PadPlan plan_pad(Attributes const& a, Tensor const& x, Tensor const& y);
cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t stream);

} // namespace surgeon
