#include "launch.h"

namespace surgeon
{

namespace
{

constexpr int kMostPeriodBytes = 32;

// With weights a thread has too many registers for large blocks of few vectors.
constexpr int kMostWeightedThreads = 256, kFewPacks = 8, kManyPacks = 16;

template <class T, class W>
cudaError_t launch_l2norm_rows(RowsPlan plan, T const* x, W const* weights, T* y, int64_t rows, int64_t length,
    Norm norm, bool stream, cudaStream_t on)
{
    if (weights && plan.packs == kFewPacks && plan.threads > kMostWeightedThreads)
    {
        plan.packs = kManyPacks;
        plan.lanes = plan.threads = ceil_div(plan.threads / 2, 32) * 32;
    }
    int64_t const blocks = ceil_div(rows, int64_t(plan.threads / plan.lanes));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    auto* const kernel
        = plan.packs == kFewPacks ? l2norm_rows_kernel<T, kFewPacks, W> : l2norm_rows_kernel<T, kManyPacks, W>;
    kernel<<<unsigned(blocks), plan.threads, 0, on>>>(x, weights, y, rows, int(length), plan.lanes, norm, stream);
    return cudaGetLastError();
}

} // namespace

cudaError_t l2norm_rows(
    Type type, void const* x, Scalars weight, void* y, int64_t rows, int64_t length, Norm norm, cudaStream_t on)
{
    RowsPlan const plan = plan_rows(type, rows, length, Device{});
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (length * sizeof(T) <= kMostPeriodBytes)
            return launch_periods<kMostPeriodBytes>(
                [](auto period) { return l2norm_periods_kernel<T, decltype(period)::LENGTH>; },
                [](auto, int) { return 0; }, in, out, rows, length, on, weight, norm, stream);
        cudaError_t status = cudaErrorInvalidConfiguration; // so far nothing has been launched
        auto const floats
            = staged_lanes(length * sizeof(T)) > 1 ? StagedWeights<T, true>::floats : StagedWeights<T, false>::floats;
        if (plan.staged)
            status = launch_staged<T, Scalars, Norm>(
                {l2norm_staged_kernel<T, PlainWords>, l2norm_staged_kernel<T, TurningWords>,
                    l2norm_staged_kernel<T, RowVectors>},
                in, out, rows, length, weight.data ? floats(int(length)) * sizeof(float) : 0, stream, on, weight,
                norm);
        if (status != cudaErrorInvalidConfiguration)
            return status;
        if (plan.blocks != 1)
            return launch_l2norm_columns(kReadTwice, type, x, weight, y, rows, length, 1, norm, on);
        auto const launch = [&](auto const* weights) {
            return launch_l2norm_rows(plan, in, weights, out, rows, length, norm, stream, on);
        };
        if (!weight.data)
            return launch(weight.data);
        return weight.type == Type::kFloat ? launch(static_cast<float const*>(weight.data))
                                           : launch(static_cast<T const*>(weight.data));
    });
}

} // namespace surgeon
