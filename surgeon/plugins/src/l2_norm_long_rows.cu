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
int64_t bytes_beside(Type type, int64_t per, int blocks, int stages, bool weighted)
{
    int64_t const weights = weighted ? (per + kLineBytes / kVectorBytes) * vector_elements(type) : 0;
    return (weights + 2 * stages * blocks * kLongRowsAdders) * int64_t(sizeof(float));
}

int64_t long_rows_bytes(LongRowsPlan const& plan, Type type, int64_t length, bool weighted)
{
    int64_t const per = share_of_row_vectors(type, length, plan.blocks);
    return plan.stages * per * kVectorBytes + bytes_beside(type, per, plan.blocks, plan.stages, weighted);
}

} // namespace

bool long_rows_fit(LongRowsPlan const& plan, Type type, int64_t length, bool weighted)
{
    constexpr int64_t kLongest = int64_t(1) << 30;
    return kStAsync && device().clusters && plan.blocks > 0 && plan.blocks <= kMostBlocksInCluster && plan.stages > 0
        && plan.stages <= kMostLongRowsStages && length < kLongest
        && long_rows_bytes(plan, type, length, weighted) <= most_shared_of_block();
}

// Rows of which a multiprocessor holds three blocks with four each; longer ones over the fewest blocks of which it
// holds two, else one, with so many that the next rows come while a row's sums go round. Many short shares cost more
// than few long ones.
LongRowsPlan plan_long_rows(Type type, int64_t length, bool weighted)
{
    auto const plan_of = [&](int blocks, int resident) {
        int64_t const room = device().shared_bytes / resident - kReservedOfBlock,
                      per = share_of_row_vectors(type, length, blocks),
                      beside = bytes_beside(type, per, blocks, kMostLongRowsStages, weighted),
                      stages = std::max<int64_t>((room - beside) / (per * kVectorBytes), 0);
        return LongRowsPlan{blocks, int(std::min<int64_t>(stages, kMostLongRowsStages))};
    };
    constexpr int kStages = 4, kFewest = 3;
    LongRowsPlan const alone = plan_of(1, 3);
    if (alone.stages >= kStages && long_rows_fit(alone, type, length, weighted))
        return alone;
    for (int resident : {2, 1})
        for (int blocks = 1; blocks <= kMostBlocksInCluster; blocks *= 2)
        {
            LongRowsPlan const plan = plan_of(blocks, resident);
            if (plan.stages >= kFewest && long_rows_fit(plan, type, length, weighted))
                return plan;
        }
    return LongRowsPlan{0, 0};
}

cudaError_t launch_l2norm_long_rows(LongRowsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t rows, int64_t length, Norm norm, unsigned* tickets, cudaStream_t on)
{
    bool const weighted = weight.data != nullptr;
    if (!long_rows_fit(plan, type, length, weighted) || rows > kMostBlocks)
        return cudaErrorInvalidValue;
    LongRows const g{unsigned(rows), int(length), int(share_of_row_vectors(type, length, plan.blocks)), plan.stages};
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_long_rows_kernel<T>, plan.blocks, kLongRowsThreads,
            long_rows_bytes(plan, type, length, weighted), rows, on, static_cast<T const*>(x), weight,
            static_cast<T*>(y), g, norm, tickets, stream);
    });
}

} // namespace surgeon
