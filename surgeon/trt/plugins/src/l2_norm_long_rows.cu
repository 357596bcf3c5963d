#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

// Vectors of a share of a row, wherever in a line that begins.
int64_t share_of_row_vectors(Type type, int64_t length, int blocks)
{
    constexpr int64_t kLine = kLineBytes / kVectorBytes;
    int64_t const most = window_vectors(length, vector_elements(type)) + kLine - 1;
    return ceil_div(ceil_div(most, int64_t(blocks)), kLine) * kLine;
}

// Of a block's shared memory what is no stage.
int64_t bytes_beside(LongRowsPlan const& plan, Type type, int64_t per)
{
    return weighted_vectors(int(per)) * vector_elements(type) * plan.kept
        + 2 * plan.stages * plan.blocks * kLongRowsAdders * int64_t(sizeof(float));
}

int64_t long_rows_bytes(LongRowsPlan const& plan, Type type, int64_t length)
{
    int64_t const per = share_of_row_vectors(type, length, plan.blocks);
    return plan.stages * per * kVectorBytes + bytes_beside(plan, type, per);
}

// A plan, and how many of the kinds that are better do not fit.
struct RankedPlan
{
    LongRowsPlan plan;
    int rank;
};

// Rows of which a multiprocessor holds three blocks with four each; longer ones over the fewest blocks of which it
// holds two with so many that the next rows come while a row's sums go round. Many short shares cost more than few long
// ones, and two blocks with two rows each less than one with six.
RankedPlan ranked_plan(Type type, int64_t length, int kept)
{
    struct Kind
    {
        int resident, stages, most_blocks;
    };
    constexpr int kMost = kMostBlocksInCluster;
    constexpr Kind kKinds[] = {{3, 4, 1}, {2, 3, kMost}, {2, 2, kMost}, {1, 3, kMost}, {1, 2, kMost}, {1, 1, kMost}};
    int rank = 0;
    for (Kind const& kind : kKinds)
    {
        for (int blocks = 1; blocks <= kind.most_blocks; blocks *= 2)
        {
            LongRowsPlan plan{blocks, kMostLongRowsStages, kept};
            int64_t const room = device().shared_bytes / kind.resident - kReservedOfBlock,
                          per = share_of_row_vectors(type, length, blocks),
                          stages = (room - bytes_beside(plan, type, per)) / (per * kVectorBytes);
            plan.stages = int(std::min<int64_t>(stages, kMostLongRowsStages));
            if (plan.stages >= kind.stages && long_rows_fit(plan, type, length))
                return {plan, rank};
        }
        ++rank;
    }
    return {kNoLongRows, rank};
}

} // namespace

bool long_rows_fit(LongRowsPlan const& plan, Type type, int64_t length)
{
    constexpr int64_t kLongest = int64_t(1) << 30;
    return kStAsync && device().clusters && plan.blocks > 0 && plan.blocks <= kMostBlocksInCluster && plan.stages > 0
        && plan.stages <= kMostLongRowsStages && length < kLongest
        && long_rows_bytes(plan, type, length) <= most_shared_of_block();
}

// Weights are kept as floats, which take fewer instructions, unless halves make room for a better plan.
LongRowsPlan plan_long_rows(Type type, int64_t length, int weight_bytes)
{
    constexpr int kFloat = sizeof(float);
    if (weight_bytes == 0 || weight_bytes == kFloat)
        return ranked_plan(type, length, weight_bytes).plan;
    RankedPlan const floats = ranked_plan(type, length, kFloat), halves = ranked_plan(type, length, weight_bytes);
    bool const fewer = halves.rank == floats.rank && halves.plan.blocks < floats.plan.blocks;
    return halves.rank < floats.rank || fewer ? halves.plan : floats.plan;
}

cudaError_t launch_l2norm_long_rows(LongRowsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t rows, int64_t length, Norm norm, unsigned* tickets, cudaStream_t on)
{
    bool const kept = plan.kept == (weight.data ? int(sizeof(float)) : 0) || plan.kept == bytes_of_one(weight);
    if (!kept || !long_rows_fit(plan, type, length) || rows > kMostBlocks)
        return cudaErrorInvalidValue;
    int const per = int(share_of_row_vectors(type, length, plan.blocks));
    LongRows const g{unsigned(rows), int(length), per, plan.stages, plan.kept};
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_long_rows_kernel<T>, plan.blocks, kLongRowsThreads,
            long_rows_bytes(plan, type, length), rows, on, static_cast<T const*>(x), weight,
            static_cast<T*>(y), g, norm, tickets, stream);
    });
}

} // namespace surgeon
