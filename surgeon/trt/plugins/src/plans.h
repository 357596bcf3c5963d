// How a shape is mapped to threads: separate from operators.h for the tests and for tuning.
#pragma once

#include "kernels.cuh"
#include "operators.h"

namespace surgeon
{

struct ColumnsPlan
{
    int pack_bytes; // 16, 8 or one element; divides the inner extent
    int packs;      // a thread's packs in registers: 1, 2, 4, 8, 16, 32; 0: x is read twice
    int x, y;       // the block: columns by channel groups
};

constexpr ColumnsPlan kReadTwice{0, 0, 0, 0};

// Tiles of neighbouring columns by all channels: see l2norm_tiles_kernel.
struct TilesPlan
{
    int blocks; // of a cluster, which share the channels; 0: this mapping does not do
    int x;      // vectors of a channel that a block has: 8, 16, 32 or 64, of halves 24 too
    int stages; // tiles that a block has
    int lag;    // of those, how many wait for their factors while the next one's sums are made
};

constexpr TilesPlan kNoTiles{0, 0, 0, 0};

// Some images at a time: see l2norm_images_kernel.
struct ImagesPlan
{
    int images; // of an item; 0: this mapping does not do
    int stages; // items that a block has
    int lanes;  // threads that share a column
};

constexpr ImagesPlan kNoImages{0, 0, 0};

// Strips of long channels: see l2norm_strips_kernel.
struct StripsPlan
{
    int width;   // columns that a strip has; 0: this mapping does not do
    int stages;  // strips that a block has
    int threads; // that have columns
};

struct RowsPlan
{
    int packs;   // a thread's vectors in registers: 8, 16; 0: the row does not fit a block's
    int lanes;   // threads that share a row in a block
    int threads; // of a block
    int blocks;  // that share a row; 0: x is read twice
    int stages;  // that a block has for shares in shared memory, 1 or 2; 0 for a row in registers
    bool staged = false; // several rows in a block's shared memory, where it has enough, instead of registers
    bool periods = false; // some rows to a thread
};

struct PadPlan
{
    int chunk; // bytes of y that a block makes at a time; 0, or less than a row: groups of threads for a row each
    bool wide; // 64-bit offsets
};

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner);
TilesPlan plan_tiles(Type type, int64_t channels, int64_t inner);
bool tiles_fit(TilesPlan const& plan, Type type, int64_t channels);
ImagesPlan plan_images(Type type, int64_t outer, int64_t channels, int64_t inner);
bool images_fit(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner);
StripsPlan plan_strips(Type type, int64_t channels, int64_t inner);
bool strips_fit(StripsPlan const& plan, Type type, int64_t channels, int64_t inner);
RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on);

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_images(ImagesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_strips(StripsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_instance_norm(RowsPlan const& plan, Type type, void const* x, void* y, int64_t rows,
    int64_t length, InstanceNormParams const& params, void* workspace, cudaStream_t stream);

PadPlan plan_pad(Attributes const& a, Tensor const& x, Tensor const& y);
cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, void* workspace,
    unsigned* tickets, cudaStream_t stream);

} // namespace surgeon
