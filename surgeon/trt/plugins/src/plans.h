// How a shape is mapped to threads: separate from operators.h for the tests and for tuning.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels.cuh"
#include "operators.h"

namespace surgeon
{

// The best of some plans by what they say of themselves, the fastest first, and of those that say the same the first
// considered.
template <class Plan>
class Ranking
{
public:
    struct Entry
    {
        Plan plan;
        double speed;
    };

    void consider(Plan const& plan, double speed)
    {
        static_assert(std::has_unique_object_representations_v<Plan>, "equal plans have equal bytes");
        auto const same = [&](Entry const& e) { return std::memcmp(&e.plan, &plan, sizeof plan) == 0; };
        auto const slower = [&](Entry const& e) { return e.speed < speed; };
        auto const place = std::find_if(mEntries.begin(), mEntries.end(), slower);
        bool const last = place == mEntries.end() && mEntries.size() == kMost;
        if (speed <= 0 || last || std::any_of(mEntries.begin(), mEntries.end(), same))
            return;
        mEntries.insert(place, Entry{plan, speed});
        mEntries.resize(std::min(mEntries.size(), kMost));
    }
    Plan best(Plan const& none) const { return mEntries.empty() ? none : mEntries.front().plan; }
    auto begin() const { return mEntries.begin(); }
    auto end() const { return mEntries.end(); }

private:
    static constexpr size_t kMost = 8;
    std::vector<Entry> mEntries;
};

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
    int x;      // vectors of a channel that a block has: 8, 16, 32, 64
    int box;    // of those, how many a copy brings: whole lines, and 32 at most
    int stages; // tiles that a block has
    int lag;    // of those, how many wait for their factors while the next one's sums are made
};

constexpr TilesPlan kNoTiles{0, 0, 0, 0, 0};

// Blocks of memory, one of each channel: see l2norm_exchange_kernel.
struct ExchangePlan
{
    int blocks; // of a cluster, which share the channels; 0: this mapping does not do
};

// Images that fit a cluster: see l2norm_images_kernel.
struct ImagesPlan
{
    int blocks; // of a cluster; 0: this mapping does not do
    int groups; // periods that a block works on at once
};

// Images that fit a cluster, wherever in a vector they begin: see l2norm_spans_kernel.
struct SpansPlan
{
    int blocks; // of a cluster; 0: this mapping does not do
    int words;  // of a turn that a thread has: 1 or 2
    int turns;  // of the fewest rows that fill words, that a block works on at once
    int stages; // shares of images that a block has
};

// Some images at a time: see l2norm_few_channels_kernel.
struct StagedPlan
{
    int images;  // of an item; 0: this mapping does not do
    int stages;  // items that a block has
    int threads; // that have columns
};

// Images of planes of a few elements: see l2norm_short_planes_kernel.
struct ShortPlanesPlan
{
    int images;  // of a block; 0: this mapping does not do
    int lanes;   // that share an image: 1, 2, 4, 8, 16, 32, or all of the block
    int threads; // of a block
};

// Strips of long channels: see l2norm_strips_kernel.
struct StripsPlan
{
    int width;   // columns that a strip has; 0: this mapping does not do
    int stages;  // strips that a block has
    int threads; // that have columns
};

// Rows of the last axis over blocks that stay: see l2norm_long_rows_kernel.
struct LongRowsPlan
{
    int blocks; // of a cluster, which share a row; 0: this mapping does not do
    int stages; // rows that they have
    int kept;   // bytes that a weight is kept in: as it comes, or 4; 0 without weights
};

constexpr LongRowsPlan kNoLongRows{0, 0, 0};

struct RowsPlan
{
    int packs;   // a thread's vectors in registers: 8, 16; 0: the row does not fit a block's
    int lanes;   // threads that share a row in a block
    int threads; // of a block
    int blocks;  // that share a row; 0: x is read twice
    int stages;  // that a block has for shares in shared memory, 1 or 2; 0 for a row in registers. With no blocks, 0
                 // where x is read twice from memory, above it where it is read the second time from the L2 cache
    bool staged = false; // several rows in a block's shared memory, where it has enough, instead of registers
    bool periods = false; // some rows to a thread
};

struct PadPlan
{
    int chunk; // bytes of y that a block makes at a time; 0, or less than a row: groups of threads for a row each
    bool wide; // 64-bit offsets
};

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner);
Ranking<TilesPlan> const& rank_tiles(Type type, int64_t channels, int64_t inner);
TilesPlan tiles_over(int blocks, int x, int box, Type type, int64_t channels);
bool tiles_fit(TilesPlan const& plan, Type type, int64_t channels);
ExchangePlan plan_exchange(Type type, int64_t channels);
bool exchange_fits(ExchangePlan const& plan, Type type, int64_t channels);
Ranking<ImagesPlan> const& rank_images(Type type, int64_t channels, int64_t inner);
bool images_fit(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner);
Ranking<SpansPlan> const& rank_spans(Type type, int64_t channels, int64_t inner, bool weighted);
bool spans_fit(SpansPlan const& plan, Type type, int64_t channels, int64_t inner);
Ranking<StagedPlan> const& rank_staged(Type type, int64_t channels, int64_t inner);
bool staged_fits(StagedPlan const& plan, Type type, int64_t channels, int64_t inner);
Ranking<ShortPlanesPlan> const& rank_short_planes(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted);
bool short_planes_fit(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner);
StripsPlan plan_strips(Type type, int64_t channels, int64_t inner);
bool strips_fit(StripsPlan const& plan, Type type, int64_t channels, int64_t inner);
// With weights of so many bytes each, 0 for none.
LongRowsPlan plan_long_rows(Type type, int64_t length, int weight_bytes);
bool long_rows_fit(LongRowsPlan const& plan, Type type, int64_t length);
// What a plan makes of a copy's speed, about, in tensors that outgrow the L2 cache; 0 for one that does not.
double speed_of(TilesPlan const& plan, Type type, int64_t channels, int64_t inner);
double speed_of(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner);
double speed_of(SpansPlan const& plan, Type type, int64_t channels, int64_t inner, bool weighted);
double speed_of(StagedPlan const& plan, Type type, int64_t channels, int64_t inner);
double speed_of(ShortPlanesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted);
RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on);

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_exchange(ExchangePlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_images(ImagesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_spans(SpansPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_staged(StagedPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_short_planes(ShortPlanesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t stream);
cudaError_t launch_l2norm_strips(StripsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_l2norm_long_rows(LongRowsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t rows, int64_t length, Norm norm, unsigned* tickets, cudaStream_t stream);
cudaError_t launch_instance_norm(RowsPlan const& plan, Type type, void const* x, void* y, int64_t rows,
    int64_t length, InstanceNormParams const& params, void* workspace, cudaStream_t stream);

PadPlan plan_pad(Attributes const& a, Tensor const& x, Tensor const& y);
cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, void* workspace,
    unsigned* tickets, cudaStream_t stream);

} // namespace surgeon
